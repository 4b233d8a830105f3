// Parameters of the kernels that convert weights between formats.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/linear_weight.h"

namespace foretoken::cpu {

/// Rows of one item of abs_max, at least; more where there are too many rows for kAbsMaxItems.
inline constexpr size_t kAbsMaxRows = 16;
inline constexpr size_t kAbsMaxItems = 4096;
/// Columns of one item of quantize_fp8_block, whole tiles: with 128 rows of BF16 they stay in the second-level cache.
inline constexpr size_t kFp8StripColumns = 1024;

/// A matrix to read.
struct QuantizeSource {
  const void* x;  // [N, K] F32 or BF16
  size_t stride;  // elements from row to row
  size_t num_rows;
  size_t num_columns;
  bool is_bf16;
};

/// Item i takes rows i * rows_per_item ...
struct AbsMaxParams {
  QuantizeSource source;
  uint32_t* partial;  // [items], bits of the largest magnitude
  size_t rows_per_item;
};

/// One item.
struct AbsMaxJoinParams {
  const uint32_t* partial;
  float* amax;  // [1]
  size_t num_partial;
};

/// Items are rows.
struct QuantizeFp8RowParams {
  QuantizeSource source;
  uint8_t* codes;  // [N, K]
  float* scale;    // [N]
};

/// Items are strips of kFp8StripColumns within bands of 128 rows, band by band.
struct QuantizeFp8BlockParams {
  QuantizeSource source;
  uint8_t* codes;  // [N, K]
  void* scale;     // [ceil(N/128), ceil(K/128)] F32 or BF16
  bool scale_is_bf16;
};

/// Items are rows; the first one writes the global scale.
struct QuantizeNvfp4Params {
  QuantizeSource source;
  const float* amax;           // [1]
  const float* column_weight;  // [K] or null
  uint8_t* codes;              // [N, K/2]
  uint8_t* scale;              // [N, K/16]
  float* global_scale;         // [1]
};

/// Item i is row first_row + i.
struct DequantizeParams {
  const void* codes;          // [N, K]
  const void* scale;          // as the format says
  const float* global_scale;  // [G], NVFP4 only
  void* out;                  // [items, K] F32 or BF16
  float* row_scale;           // [items] or null; what all of a row is multiplied by goes here instead of into `out`
  size_t first_row;
  size_t num_columns;
  size_t block_rows;             // FP8 block
  size_t rows_per_global_scale;  // NVFP4
  WeightFormat format;
  bool one_scale;  // FP8 row: one for the whole tensor
  bool scale_is_bf16;
  bool out_is_bf16;
};

}  // namespace foretoken::cpu
