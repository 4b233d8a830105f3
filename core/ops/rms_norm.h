// out[t, h] = x[t, h] / sqrt(mean_h(x^2) + eps) * (1 + weight[h]): zero-centred weight, eps inside the root, as trained.
// Statistics in float32 or better.
#pragma once

#include <array>
#include <vector>

#include "core/op_schema.h"

namespace foretoken {

template <class Op>
struct OpCase;

/// May run in place (out = x).
struct RmsNorm {
  Tensor x;       // [T, H]
  Tensor weight;  // [H] F32
  Tensor out;     // [T, H]
  float eps = 1e-6F;

  [[nodiscard]] std::array<const Tensor*, 3> operands() const { return {&x, &weight, &out}; }
  static const OpSchema& schema();
  static std::vector<OpCase<RmsNorm>> cases();
};

/// residual += x; out = rms_norm(residual): the step between two blocks of a decoder layer in one pass.
struct AddRmsNorm {
  Tensor x;         // [T, H]
  Tensor residual;  // [T, H], updated
  Tensor weight;    // [H] F32
  Tensor out;       // [T, H]
  float eps = 1e-6F;

  [[nodiscard]] std::array<const Tensor*, 4> operands() const { return {&x, &residual, &weight, &out}; }
  static const OpSchema& schema();
  static std::vector<OpCase<AddRmsNorm>> cases();
};

}  // namespace foretoken
