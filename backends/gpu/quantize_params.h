// Parameters of the kernels that convert weights between formats. Addresses are the device's.
#pragma once

#include <cstdint>

#include "core/linear_weight.h"

namespace foretoken::gpu {

inline constexpr uint32_t kQuantizeThreads = 256;
/// Rows that a work group of abs_max takes at a time, one per warp, and the most work groups: each leaves one partial result.
inline constexpr uint32_t kAbsMaxRows = 8;
inline constexpr uint32_t kAbsMaxGroups = 4096;

/// A matrix to read.
struct QuantizeSource {
  uint64_t x;       // [N, K] F32 or BF16
  uint64_t stride;  // elements from row to row
  uint64_t num_rows;
  uint32_t num_columns;
  uint32_t is_bf16;
};

/// grid: as many groups of rows as there are, up to kAbsMaxGroups.
struct AbsMaxParams {
  QuantizeSource source;
  uint64_t partial;  // [grid], bits of the largest magnitude
};

/// One work group.
struct AbsMaxJoinParams {
  uint64_t partial;
  uint64_t amax;  // [1]
  uint64_t num_partial;
};

/// grid: rows.
struct QuantizeFp8RowParams {
  QuantizeSource source;
  uint64_t codes;  // [N, K]
  uint64_t scale;  // [N]
};

/// grid: (column tile, row tile).
struct QuantizeFp8BlockParams {
  QuantizeSource source;
  uint64_t codes;  // [N, K]
  uint64_t scale;  // [ceil(N/128), ceil(K/128)] F32 or BF16
  uint64_t scale_is_bf16;
};

/// grid: rows; the first one writes the global scale.
struct QuantizeNvfp4Params {
  QuantizeSource source;
  uint64_t amax;           // [1]
  uint64_t column_weight;  // [K] F32, or 0
  uint64_t codes;          // [N, K/2]
  uint64_t scale;          // [N, K/16]
  uint64_t global_scale;   // [1]
};

/// grid: rows.
struct DequantizeParams {
  uint64_t codes;         // [N, K]
  uint64_t scale;         // as the format says
  uint64_t global_scale;  // [G], NVFP4 only
  uint64_t out;           // [N, K] F32 or BF16
  uint32_t num_columns;
  uint32_t block_rows;             // FP8 block
  uint32_t rows_per_global_scale;  // NVFP4
  uint32_t one_scale;              // FP8 row: one for the whole tensor
  uint32_t scale_is_bf16;
  uint32_t out_is_bf16;
  WeightFormat format;
};

}  // namespace foretoken::gpu
