#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/cpu/reference/activation.h"
#include "backends/cpu/reference/host_tensor.h"
#include "backends/cpu/reference/reference.h"
#include "backends/cpu/reference/weight_access.h"

namespace foretoken {
namespace {

using Matrix = std::vector<std::vector<double>>;

/// x weight^T, [T, N]; each weight is read once.
Matrix product(const Tensor& x, const LinearWeight& weight) {
  const HostTensor activations(x);
  const WeightReader weights(weight);
  const auto num_tokens = static_cast<size_t>(x.dim(0));
  const auto out_features = static_cast<size_t>(weight.out_features());
  Matrix out(num_tokens, std::vector<double>(out_features));
  Matrix rows(num_tokens);
  for (size_t t = 0; t < num_tokens; ++t) {
    for (int64_t k = 0; k < x.dim(1); ++k) rows[t].push_back(activations(static_cast<int64_t>(t), k));
  }
  for (size_t n = 0; n < out_features; ++n) {
    for (int64_t k = 0; k < x.dim(1); ++k) {
      const double w = weights(static_cast<int64_t>(n), k);
      for (size_t t = 0; t < num_tokens; ++t) out[t][n] += rows[t][static_cast<size_t>(k)] * w;
    }
  }
  return out;
}

}  // namespace

void reference(const Linear& op) {
  const HostTensor out(op.out);
  const Matrix y = product(op.x, op.w);
  for (size_t t = 0; t < y.size(); ++t) {
    for (size_t n = 0; n < y[t].size(); ++n) out.set(y[t][n], static_cast<int64_t>(t), n);
  }
}

void reference(const LinearGroup& op) {
  for (size_t i = 0; i < op.num_projections(); ++i) reference(op.projection(i));
}

void reference(const LinearSiluMul& op) {
  const HostTensor out(op.out);
  const Matrix gate = product(op.x, op.gate);
  const Matrix up = product(op.x, op.up);
  for (size_t t = 0; t < gate.size(); ++t) {
    for (size_t n = 0; n < gate[t].size(); ++n) out.set(silu(gate[t][n]) * up[t][n], static_cast<int64_t>(t), n);
  }
}

std::vector<double> reference_logits(const LinearArgmax& op, int64_t t) { return product(op.x.rows(t, 1), op.w)[0]; }

void reference(const LinearArgmax& op) {
  const HostTensor token_map(op.token_map);
  const HostTensor token_ids(op.token_ids);
  const HostTensor logprobs(op.logprobs);
  const Matrix all_logits = product(op.x, op.w);
  for (int64_t t = 0; t < token_ids.dim(0); ++t) {
    const std::vector<double>& logits = all_logits[static_cast<size_t>(t)];
    double best = -std::numeric_limits<double>::infinity();
    int64_t best_id = 0;
    for (size_t n = 0; n < logits.size(); ++n) {
      if (logits[n] > best) {
        best = logits[n];
        best_id = static_cast<int64_t>(n);
      }
    }
    token_ids.set(token_map ? token_map(best_id) : static_cast<double>(best_id), t);
    if (!logprobs) continue;
    double sum = 0.0;
    for (const double logit : logits) sum += std::exp(logit - best);
    logprobs.set(logits[static_cast<size_t>(best_id)] - (best + std::log(sum)), t);
  }
}

}  // namespace foretoken
