// Parameters of the AMX kernels of prefill. Activations are rounded to BF16 and packed so that tiles load whole cache lines:
// packed[block of 16 rows][block of 32 k][16 pairs of k][16 rows][2] BF16.
#pragma once

#include <cstddef>
#include <cstdint>

namespace foretoken::cpu {

/// Rows of a packed block, outputs of a tile, and k of a tile.
inline constexpr size_t kAmxTile = 16;
inline constexpr size_t kAmxDepth = 32;

/// Items are blocks of sixteen rows; rows past num_rows are zero.
struct AmxPackParams {
  uint64_t x;       // [num_rows, in_features] F32
  uint64_t packed;  // BF16, as above
  uint64_t x_stride;
  uint32_t num_rows;
  uint32_t in_features;  // a multiple of kAmxDepth
};
static_assert(sizeof(AmxPackParams) == 32);

/// out = x W^T, or silu(x gate^T) * (x up^T). Items are slices of the output columns.
struct AmxLinearParams {
  uint64_t packed;        // an even number of blocks
  uint64_t weight;        // [out_features, in_features] BF16; the gate when there is an up
  uint64_t up;            // like weight; 0: none
  uint64_t weight_scale;  // [out_features] F32, by which results are multiplied; 0: none
  uint64_t up_scale;
  uint64_t out;  // [num_rows, out_features] F32
  uint64_t out_stride;
  uint32_t num_rows;
  uint32_t in_features;
  uint32_t out_features;  // a multiple of kAmxTile
  uint32_t slice_columns;
  uint32_t prefetch_lines;  // of the next item's weights, with each step along in_features
  uint32_t reserved;
};
static_assert(sizeof(AmxLinearParams) == 80);

}  // namespace foretoken::cpu
