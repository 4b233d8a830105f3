// A mixture of experts with its router and its shared expert: LinearGroup, LinearSiluMul, Linear, MoeRoute, MoeExpertsUp and
// MoeExpertsDown one after another, as they are declared; a device may put some of them into one launch.
#pragma once

#include <array>
#include <vector>

#include "core/ops/linear_group.h"
#include "core/ops/moe.h"

namespace foretoken {

/// Everything between x and out is an output too, with the bits that its operator gives it; rows are row-invariant at kExact. The
/// router and the gate of the shared expert are exact at every precision.
struct MoeBlock {
  Tensor x;                         // [T, H]
  LinearWeight router;              // [E, H]
  LinearWeight shared_expert_gate;  // [1, H]
  LinearWeight shared_gate;         // [S, H]
  LinearWeight shared_up;           // [S, H], the same format
  LinearWeight shared_down;         // [H, S]
  LinearWeight gate_up;             // [E, 2*I, H], gate rows first
  LinearWeight down;                // [E, H, I]
  Tensor logits;                    // [T, E] F32
  Tensor shared_score;              // [T, 1] F32, before the sigmoid
  Tensor shared_act;                // [T, S]
  Tensor shared;                    // [T, H]
  Tensor topk_ids;                  // [T, k] I32
  Tensor topk_weights;              // [T, k] F32
  Tensor expert_offsets;            // [E+1] I32
  Tensor expert_pairs;              // [T*k] I32
  Tensor act;                       // [T, k, I]
  Tensor out;                       // [T, H]
  Tensor linear_workspace;          // of the linear layers, which at kExact need none
  Tensor workspace;                 // of MoeExpertsDown
  bool norm_topk_prob = true;
  LinearPrecision precision = LinearPrecision::kExact;

  [[nodiscard]] LinearGroup scores() const;            // x -> logits, shared_score
  [[nodiscard]] LinearSiluMul shared_product() const;  // x -> shared_act
  [[nodiscard]] Linear shared_output() const;          // shared_act -> shared
  [[nodiscard]] MoeRoute route() const;                // logits -> topk_ids, ...
  [[nodiscard]] MoeExpertsUp experts_up() const;       // x -> act
  [[nodiscard]] MoeExpertsDown experts_down() const;   // act, shared -> out

  [[nodiscard]] std::array<const Tensor*, 34> operands() const;
  void validate() const;
  static const OpSchema& schema();
  static std::vector<OpCase<MoeBlock>> cases();
};

}  // namespace foretoken
