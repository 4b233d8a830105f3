// Weights [N, K] into the formats of core/linear_weight.h and back. All arithmetic is float32, rounded to nearest even, so every
// device gives the same bytes. A stack of experts is quantised matrix by matrix.
//
// amax is the largest magnitude; NaN when an element is NaN, so that a broken weight has a NaN scale instead of looking sound.
// A quotient that is NaN gives the E4M3 code 0x7f and the E2M1 code 0.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/linear_weight.h"
#include "core/op_schema.h"

namespace foretoken {

template <class Op>
struct OpCase;

/// amax[0] = max |x[n, k]|; 0 when there is no element.
struct AbsMax {
  Tensor x;     // [N, K] F32 or BF16, rows may be strided
  Tensor amax;  // [1] F32
  Tensor workspace;

  [[nodiscard]] std::array<const Tensor*, 3> operands() const { return {&x, &amax, &workspace}; }
  static const OpSchema& schema();
  static std::vector<OpCase<AbsMax>> cases();
};

/// scale[n] = amax of row n / 448, 1 where that is 0; codes = E4M3(clamp(x / scale[n], -448, 448)).
struct QuantizeFp8Row {
  Tensor x;      // [N, K] F32 or BF16, rows may be strided
  Tensor codes;  // [N, K] E4M3
  Tensor scale;  // [N] F32

  [[nodiscard]] std::array<const Tensor*, 3> operands() const { return {&x, &codes, &scale}; }
  static const OpSchema& schema();
  static std::vector<OpCase<QuantizeFp8Row>> cases();
};

/// Per 128 x 128 tile (ragged at the edges) s = max(amax / 448, 1e-12); codes = E4M3(clamp(x / s, -448, 448)) with s unrounded,
/// also where the stored scale is BF16.
struct QuantizeFp8Block {
  Tensor x;      // [N, K] F32 or BF16, rows may be strided
  Tensor codes;  // [N, K] E4M3
  Tensor scale;  // [ceil(N/128), ceil(K/128)] F32 or BF16

  [[nodiscard]] std::array<const Tensor*, 3> operands() const { return {&x, &codes, &scale}; }
  void validate() const;
  static const OpSchema& schema();
  static std::vector<OpCase<QuantizeFp8Block>> cases();
};

/// From the plain rule's scale code to the others that QuantizeNvfp4 tries when columns have weights, in this order: from scales
/// that cut the largest element off to those by which it becomes about a 4 instead of a 6.
inline constexpr std::array<int32_t, 7> kNvfp4ScaleSteps{1, -1, 2, -2, 3, 4, 5};

/// global_scale = amax / 2688, 1 where that is 0; per 16 columns s = E4M3(min(amax_group / (6 * global_scale), 448));
/// y = x / (s * global_scale), 0 where that product is 0; codes = E2M1(y).
///
/// With `column_weight` that s, unless it is NaN, is the first of several; then come its code plus each of kNvfp4ScaleSteps,
/// brought into [0, 126]. One takes the place of the best before it where its error is smaller, which NaN never is. With
/// d = s * global_scale and q_i the value of the code that element i of the group gets by it,
///   e_i = fma(-q_i, d, x_i), t_i = (column_weight_i * e_i) * e_i, error = the sum of t_0 .. t_15, folded:
///   t_i += t_(i+8) for i < 8, then t_i += t_(i+4) for i < 4, t_i += t_(i+2) for i < 2, t_0 + t_1.
struct QuantizeNvfp4 {
  Tensor x;                // [N, K] F32 or BF16, K % 16 == 0, rows may be strided
  Tensor amax;             // [1] F32, of the matrix that x is, or is part of: see AbsMax
  Tensor column_weight{};  // [K] F32, may be absent: how much the squared error of each column counts
  Tensor codes;            // [N, K] E2M1
  Tensor scale;            // [N, K/16] E4M3
  Tensor global_scale;     // [1] F32

  [[nodiscard]] std::array<const Tensor*, 6> operands() const {
    return {&x, &amax, &column_weight, &codes, &scale, &global_scale};
  }
  void validate() const;
  static const OpSchema& schema();
  static std::vector<OpCase<QuantizeNvfp4>> cases();
};

/// out[n, k] = element (n, k) of the weight in float32, then rounded to out's dtype. The product is code * scale, in NVFP4
/// (code * scale) * global_scale: only the last multiplication rounds.
struct Dequantize {
  LinearWeight w;  // [N, K], any format
  Tensor out;      // [N, K] F32 or BF16

  [[nodiscard]] std::array<const Tensor*, 4> operands() const { return {&w.weight, &w.scale, &w.global_scale, &out}; }
  void validate() const;
  static const OpSchema& schema();
  static std::vector<OpCase<Dequantize>> cases();
};

}  // namespace foretoken
