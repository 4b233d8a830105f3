// Mixture of experts: p = softmax(router logits) over all experts, top-k (ties: the lower index), optionally renormalised;
// y = sum_k p_k down_k(silu(gate_k x) * up_k x) + sigmoid(shared_expert_gate x) * shared(x), summed in slot order k = 0, 1, ...
#pragma once

#include <array>
#include <vector>

#include "core/ops/linear.h"

namespace foretoken {

template <class Op>
struct OpCase;

/// Picks the experts of each row, best first, and lists the (row, slot) pairs by expert.
struct MoeRoute {
  Tensor logits;          // [T, E] F32
  Tensor topk_ids;        // [T, k] I32
  Tensor topk_weights;    // [T, k] F32
  Tensor expert_offsets;  // [E+1] I32: expert e has pairs expert_pairs[expert_offsets[e] .. expert_offsets[e+1])
  Tensor expert_pairs;    // [T*k] I32: row * k + slot, ascending within an expert
  bool norm_topk_prob = true;

  [[nodiscard]] std::array<const Tensor*, 5> operands() const {
    return {&logits, &topk_ids, &topk_weights, &expert_offsets, &expert_pairs};
  }
  static const OpSchema& schema();
  static std::vector<OpCase<MoeRoute>> cases();
};

/// out[t, s] = silu(gate_e x_t) * (up_e x_t) with e = topk_ids[t, s]. Row-invariant at kExact.
struct MoeExpertsUp {
  Tensor x;               // [T, H]
  LinearWeight gate_up;   // [E, 2*I, H], gate rows first
  Tensor expert_offsets;  // [E+1] I32
  Tensor expert_pairs;    // [P] I32, P = T*k
  Tensor out;             // [T, k, I]
  LinearPrecision precision = LinearPrecision::kExact;

  [[nodiscard]] std::array<const Tensor*, 7> operands() const {
    return {&x, &gate_up.weight, &gate_up.scale, &gate_up.global_scale, &expert_offsets, &expert_pairs, &out};
  }
  void validate() const;
  static const OpSchema& schema();
  static std::vector<OpCase<MoeExpertsUp>> cases();
};

/// out[t] = sum_s topk_weights[t, s] * down_e act[t, s]  (+ sigmoid(shared_gate[t]) * shared[t]). Row-invariant at kExact.
struct MoeExpertsDown {
  Tensor act;             // [T, k, I]
  LinearWeight down;      // [E, H, I]
  Tensor topk_ids;        // [T, k] I32
  Tensor topk_weights;    // [T, k] F32
  Tensor expert_offsets;  // [E+1] I32
  Tensor expert_pairs;    // [P] I32
  Tensor shared;          // [T, H], may be absent, together with shared_gate
  Tensor shared_gate;     // [T, 1] F32, before the sigmoid
  Tensor out;             // [T, H]
  Tensor workspace;
  LinearPrecision precision = LinearPrecision::kExact;

  [[nodiscard]] std::array<const Tensor*, 12> operands() const {
    return {&act,    &down.weight, &down.scale, &down.global_scale, &topk_ids, &topk_weights, &expert_offsets, &expert_pairs,
            &shared, &shared_gate, &out,        &workspace};
  }
  void validate() const;
  static const OpSchema& schema();
  static std::vector<OpCase<MoeExpertsDown>> cases();
};

}  // namespace foretoken
