// Parameters of the linear kernels. Addresses are host pointers; strides count elements; activations are float32.
#pragma once

#include <cstdint>

namespace foretoken::cpu {

/// Most rows of a work item.
inline constexpr uint32_t kMaxRowTile = 48;
/// Activations of a work item that fit the copy in the order of the weights, in each thread: half of a second-level cache. Larger
/// ones are read where they lie, which takes longer, very much so for NVFP4.
inline constexpr uint32_t kArrangedFloats = 131072;

/// Most columns that the kernels on tiles take (linear_tiles.h), and the rows of so many columns that each thread keeps as tiles.
inline constexpr uint32_t kMaxTileFeatures = 20480;
inline constexpr uint32_t kArrangedTileRows = 8;

/// Whether weights are fetched ahead into the first-level cache, not the second: faster on AMD (docs/benchmarks.md), and on
/// Intel, where two threads may share a first level, not measured. Fixed when the program starts (cpu_info.cpp).
extern const bool fetches_near;

/// A weight [rows, in_features], or a stack of such matrices, in the format that the kernel is for (core/linear_weight.h).
struct WeightParams {
  uint64_t codes;
  uint64_t scale;         // 0 where the format has none
  uint64_t global_scale;  // NVFP4 only
  uint32_t rows;          // of one matrix
  // FP8: a power of two, at least `rows` for a single scale. NVFP4: the rows under one global scale.
  uint32_t rows_per_scale;
  uint32_t scale_is_bf16;
  uint32_t reserved;
};
static_assert(sizeof(WeightParams) == 40);

/// Columns of a LinearArgmax work item. Fixed: the partial sums of a row must not depend on anything else.
inline constexpr uint32_t kArgmaxTileColumns = 64;

/// out[t, n] = x_t . weight_n. Item i is tile (i / column tiles, i % column tiles) of row_tile x column_tile outputs.
struct LinearParams {
  uint64_t x;           // [num_rows, in_features]
  WeightParams weight;  // [out_features, in_features]
  uint64_t out;         // [num_rows, out_features]
  uint64_t x_stride;
  uint64_t out_stride;
  uint32_t num_rows;
  uint32_t in_features;
  uint32_t out_features;
  uint32_t row_tile;     // at most kMaxRowTile
  uint32_t column_tile;  // at most 64
  uint32_t reserved;
};
static_assert(sizeof(LinearParams) == 96);

/// Several projections of the same rows. Items are those of the parts, one part after another.
struct LinearGroupParams {
  static constexpr uint32_t kMaxParts = 4;
  struct Part {
    LinearParams linear;
    uint32_t num_items;
    uint32_t format;  // WeightFormat as a number
  };
  Part parts[kMaxParts];
  uint32_t num_parts;
  uint32_t reserved;
};
static_assert(sizeof(LinearGroupParams) == 4 * 104 + 8);

/// out = silu(x gate^T) * (x up^T), in the same tiles.
struct LinearSiluMulParams {
  uint64_t x;
  WeightParams gate;
  WeightParams up;
  uint64_t out;
  uint64_t x_stride;
  uint64_t out_stride;
  uint32_t num_rows;
  uint32_t in_features;
  uint32_t out_features;
  uint32_t row_tile;
  uint32_t column_tile;
  uint32_t reserved;
};
static_assert(sizeof(LinearSiluMulParams) == 136);

/// Per row and tile of kArgmaxTileColumns columns: the largest logit, its id (-1: all are NaN), and the sum of exp(logit -
/// largest).
struct LinearArgmaxParams {
  uint64_t x;
  WeightParams weight;
  uint64_t tile_max;  // [num_rows, tiles] F32
  uint64_t tile_id;   // [num_rows, tiles] I32
  uint64_t tile_sum;  // [num_rows, tiles] F32; 0: not wanted
  uint64_t x_stride;
  uint32_t num_rows;
  uint32_t in_features;
  uint32_t out_features;
  uint32_t row_tile;     // at most kMaxRowTile
  uint32_t column_tile;  // kArgmaxTileColumns
  uint32_t reserved;
};
static_assert(sizeof(LinearArgmaxParams) == 104);

/// Joins the tiles of a row, in tile order. Items are rows.
struct LinearArgmaxCombineParams {
  uint64_t tile_max;
  uint64_t tile_id;
  uint64_t tile_sum;   // 0 together with logprobs
  uint64_t token_map;  // [out_features] I32 or 0
  uint64_t token_ids;  // [num_rows] I32
  uint64_t logprobs;   // [num_rows] F32 or 0
  uint32_t num_tiles;
  uint32_t reserved;
};
static_assert(sizeof(LinearArgmaxCombineParams) == 56);

}  // namespace foretoken::cpu
