#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/cpu/reference/activation.h"
#include "backends/cpu/reference/host_tensor.h"
#include "backends/cpu/reference/reference.h"
#include "backends/cpu/reference/weight_access.h"

namespace foretoken {
namespace {

/// x[t] . weight[n]
double dot(const HostTensor& x, int64_t t, const WeightReader& weight, int64_t n) {
  double sum = 0.0;
  for (int64_t k = 0; k < x.dim(1); ++k) sum += x(t, k) * weight(n, k);
  return sum;
}

}  // namespace

void reference(const Linear& op) {
  const HostTensor x(op.x);
  const WeightReader weight(op.w);
  const HostTensor out(op.out);
  for (int64_t t = 0; t < out.dim(0); ++t) {
    for (int64_t n = 0; n < out.dim(1); ++n) out.set(dot(x, t, weight, n), t, n);
  }
}

void reference(const LinearSiluMul& op) {
  const HostTensor x(op.x);
  const WeightReader gate(op.gate);
  const WeightReader up(op.up);
  const HostTensor out(op.out);
  for (int64_t t = 0; t < out.dim(0); ++t) {
    for (int64_t n = 0; n < out.dim(1); ++n) out.set(silu(dot(x, t, gate, n)) * dot(x, t, up, n), t, n);
  }
}

std::vector<double> reference_logits(const LinearArgmax& op, int64_t t) {
  const HostTensor x(op.x);
  const WeightReader weight(op.w);
  std::vector<double> logits;
  for (int64_t n = 0; n < op.w.out_features(); ++n) logits.push_back(dot(x, t, weight, n));
  return logits;
}

void reference(const LinearArgmax& op) {
  const HostTensor token_ids(op.token_ids);
  const HostTensor logprobs(op.logprobs);
  for (int64_t t = 0; t < token_ids.dim(0); ++t) {
    const std::vector<double> logits = reference_logits(op, t);
    double best = -std::numeric_limits<double>::infinity();
    int64_t best_id = 0;
    for (size_t n = 0; n < logits.size(); ++n) {
      if (logits[n] > best) {
        best = logits[n];
        best_id = static_cast<int64_t>(n);
      }
    }
    token_ids.set(static_cast<double>(best_id), t);
    if (!logprobs) continue;
    double sum = 0.0;
    for (const double logit : logits) sum += std::exp(logit - best);
    logprobs.set(logits[static_cast<size_t>(best_id)] - (best + std::log(sum)), t);
  }
}

}  // namespace foretoken
