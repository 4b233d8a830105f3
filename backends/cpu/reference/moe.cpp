#include <algorithm>
#include <cmath>
#include <numeric>

#include "backends/cpu/reference/activation.h"
#include "backends/cpu/reference/host_tensor.h"
#include "backends/cpu/reference/reference.h"
#include "backends/cpu/reference/weight_access.h"

namespace foretoken {
namespace {

/// The k best experts of row `t` with their weights.
void route_row(const MoeRoute& op, int64_t t) {
  const HostTensor logits(op.logits);
  const int64_t num_experts = logits.dim(1);
  const int64_t top_k = op.topk_ids.dim(1);
  std::vector<int64_t> order(static_cast<size_t>(num_experts));
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](int64_t a, int64_t b) { return logits(t, a) > logits(t, b); });
  const double largest = logits(t, order[0]);
  double all = 0.0;
  for (int64_t expert = 0; expert < num_experts; ++expert) all += std::exp(logits(t, expert) - largest);
  double chosen = 0.0;
  for (int64_t s = 0; s < top_k; ++s) chosen += std::exp(logits(t, order[static_cast<size_t>(s)]) - largest);
  for (int64_t s = 0; s < top_k; ++s) {
    const int64_t expert = order[static_cast<size_t>(s)];
    HostTensor(op.topk_ids).set(static_cast<double>(expert), t, s);
    HostTensor(op.topk_weights).set(std::exp(logits(t, expert) - largest) / (op.norm_topk_prob ? chosen : all), t, s);
  }
}

}  // namespace

void reference(const MoeRoute& op) {
  const HostTensor topk_ids(op.topk_ids);
  const HostTensor offsets(op.expert_offsets);
  const int64_t num_tokens = op.logits.dim(0);
  const int64_t top_k = op.topk_ids.dim(1);
  for (int64_t t = 0; t < num_tokens; ++t) route_row(op, t);
  int64_t listed = 0;
  offsets.set(0.0, 0);
  for (int64_t expert = 0; expert < op.logits.dim(1); ++expert) {
    for (int64_t pair = 0; pair < num_tokens * top_k; ++pair) {
      if (topk_ids.integer(pair / top_k, pair % top_k) != expert) continue;
      HostTensor(op.expert_pairs).set(static_cast<double>(pair), listed++);
    }
    offsets.set(static_cast<double>(listed), expert + 1);
  }
}

void reference(const MoeExpertsUp& op) {
  const HostTensor x(op.x);
  const HostTensor offsets(op.expert_offsets);
  const HostTensor pairs(op.expert_pairs);
  const HostTensor out(op.out);
  const int64_t top_k = out.dim(1);
  const int64_t intermediate_size = out.dim(2);
  for (int64_t expert = 0; expert + 1 < offsets.dim(0); ++expert) {
    const WeightReader gate_up(op.gate_up, expert);
    for (int64_t i = offsets.integer(expert); i < offsets.integer(expert + 1); ++i) {
      const int64_t t = pairs.integer(i) / top_k;
      std::vector<double> input;
      for (int64_t h = 0; h < x.dim(1); ++h) input.push_back(x(t, h));
      for (int64_t row = 0; row < intermediate_size; ++row) {
        double gate = 0.0;
        double up = 0.0;
        for (int64_t h = 0; h < x.dim(1); ++h) {
          gate += input[static_cast<size_t>(h)] * gate_up(row, h);
          up += input[static_cast<size_t>(h)] * gate_up(intermediate_size + row, h);
        }
        out.set(silu(gate) * up, t, pairs.integer(i) % top_k, row);
      }
    }
  }
}

void reference(const MoeExpertsDown& op) {
  const HostTensor act(op.act);
  const HostTensor out(op.out);
  for (int64_t t = 0; t < out.dim(0); ++t) {
    std::vector<double> sums(static_cast<size_t>(out.dim(1)));
    for (int64_t s = 0; s < act.dim(1); ++s) {
      const WeightReader down(op.down, HostTensor(op.topk_ids).integer(t, s));
      const double topk_weight = HostTensor(op.topk_weights)(t, s);
      for (int64_t h = 0; h < out.dim(1); ++h) {
        double projected = 0.0;
        for (int64_t i = 0; i < act.dim(2); ++i) projected += act(t, s, i) * down(h, i);
        sums[static_cast<size_t>(h)] += topk_weight * projected;
      }
    }
    for (int64_t h = 0; h < out.dim(1); ++h) {
      const double shared = op.shared ? sigmoid(HostTensor(op.shared_gate)(t, 0)) * HostTensor(op.shared)(t, h) : 0.0;
      out.set(sums[static_cast<size_t>(h)] + shared, t, h);
    }
  }
}

void reference(const MoeBlock& op) {
  reference(op.scores());
  reference(op.shared_product());
  reference(op.shared_output());
  reference(op.route());
  reference(op.experts_up());
  reference(op.experts_down());
}

}  // namespace foretoken
