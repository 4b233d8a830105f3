// How the kernels of weight_fragments.cuh divide the rows of a weight.
#pragma once

#include <cstdint>

#include "core/linear_weight.h"

namespace foretoken::cuda {

/// Of a row that a warp multiplies at a time.
inline constexpr uint32_t kUnitBits = 1024;

[[nodiscard]] inline uint32_t code_bits(const LinearWeight& w) { return static_cast<uint32_t>(dtype_bits(code_dtype(w.format))); }
[[nodiscard]] inline uint32_t unit_elements(const LinearWeight& w) { return kUnitBits / code_bits(w); }
/// Units of a row; the last may be a part of one.
[[nodiscard]] inline uint32_t num_units(const LinearWeight& w) {
  return (static_cast<uint32_t>(w.in_features()) + unit_elements(w) - 1) / unit_elements(w);
}

}  // namespace foretoken::cuda
