// out[t, h] = weight * x / sqrt(mean(x^2) + eps) * silu(gate), per head h over its D elements; plain weight (not zero-centred).
#pragma once

#include <array>
#include <vector>

#include "core/op_schema.h"

namespace foretoken {

template <class Op>
struct OpCase;

/// The gated norm of the linear-attention layers. May run in place (out = x).
struct RmsNormGated {
  Tensor x;       // [T, Hv, D]
  Tensor gate;    // [T, Hv, D]
  Tensor weight;  // [D] F32
  Tensor out;     // [T, Hv, D]
  float eps = 1e-6F;

  [[nodiscard]] std::array<const Tensor*, 4> operands() const { return {&x, &gate, &weight, &out}; }
  static const OpSchema& schema();
  static std::vector<OpCase<RmsNormGated>> cases();
};

}  // namespace foretoken
