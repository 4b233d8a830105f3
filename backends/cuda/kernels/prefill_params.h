// Parameters of the prefill kernels: products with BF16 activations on tensor cores.
#pragma once

#include <cstdint>

#include "backends/gpu/linear_params.h"

namespace foretoken::cuda {

inline constexpr uint32_t kPrefillThreads = 256;
/// A work group computes kPrefillRows rows of the result by kPrefillColumns weight rows, kPrefillDepth columns of the weight at a
/// time.
inline constexpr uint32_t kPrefillRows = 64;
inline constexpr uint32_t kPrefillColumns = 128;
inline constexpr uint32_t kPrefillDepth = 32;

/// grid: (tiles of weight rows, tiles of rows). prefill_linear, or prefill_silu_mul with gate and up.
struct PrefillParams {
  gpu::WeightParams weight;
  gpu::WeightParams second;  // prefill_silu_mul: the up projection, the same in all but its addresses
  uint64_t x;                // [T, K]
  uint64_t out;              // [T, N]
  uint64_t x_stride;
  uint64_t out_stride;
  uint32_t num_rows;
  uint32_t in_features;  // a multiple of kPrefillDepth
  uint32_t out_features;
  uint32_t x_is_bf16;
  uint32_t out_is_bf16;
  uint32_t reserved;
};

}  // namespace foretoken::cuda
