// Parameters of the kernels that multiply by a weight (core/linear_weight.h). Addresses are the device's; strides of activations
// count elements.
#pragma once

#include <cstdint>

namespace foretoken::gpu {

/// Threads of a work group and its warps: few, so that the last work groups of a launch keep all multiprocessors busy. Of
/// linear_argmax a warp for each of the rows that it takes together.
inline constexpr uint32_t kLinearThreads = 128;
inline constexpr uint32_t kLinearWarps = 4;
inline constexpr uint32_t kArgmaxThreads = 256;
inline constexpr uint32_t kArgmaxWarps = 8;
/// Weight rows (columns of the result) that a warp takes together. Narrow kernels take fewer: for one activation row they need
/// few registers, so that many warps keep memory busy.
inline constexpr uint32_t kWarpColumns = 4;
inline constexpr uint32_t kNarrowWarpColumns = 2;
inline constexpr uint32_t kCombineThreads = 256;

/// A weight, or a stack of them.
struct WeightParams {
  uint64_t codes;
  uint64_t scale;
  uint64_t global_scale;
  uint64_t codes_stride;         // bytes from one matrix of a stack to the next
  uint64_t scale_stride;         // likewise
  uint64_t global_scale_stride;  // likewise
  uint32_t scale_columns;        // FP8 block, NVFP4: scales of one row; FP8 row: 0 where one scale is for all, else 1
  uint32_t block_shift;          // FP8 block: log2 of the rows that share a scale
  uint32_t rows_per_global;      // NVFP4: rows that share a global scale
  uint32_t scale_is_bf16;
};

/// The order of a sum depends on `num_slices` and K alone: steps of kLanes vectors go round the slices, and the slices' sums are
/// added in order.
struct LinearParams {
  WeightParams weight;
  WeightParams second;  // linear_silu_mul: the up projection, the same in all but its addresses
  uint64_t x;           // [T, K]
  uint64_t out;         // [T, N]
  uint64_t x_stride;
  uint64_t out_stride;
  uint32_t num_rows;
  uint32_t in_features;
  uint32_t out_features;
  uint32_t num_slices;  // 1, 2 or 4: warps that share a tile
  uint32_t x_is_bf16;
  uint32_t out_is_bf16;
};

/// Partial results of tile group g and row t are at [t, g].
struct LinearArgmaxParams {
  WeightParams weight;
  uint64_t x;         // [T, K]
  uint64_t part_max;  // [T, num_parts] F32
  uint64_t part_id;   // [T, num_parts] I32, -1: only NaN
  uint64_t part_sum;  // [T, num_parts] F32: sum of exp(logit - max)
  uint64_t x_stride;
  uint32_t num_rows;
  uint32_t in_features;
  uint32_t out_features;
  uint32_t num_slices;
  uint32_t x_is_bf16;
  uint32_t num_parts;
  uint32_t tiles_per_part;
  uint32_t reserved;
};

struct LinearArgmaxCombineParams {
  uint64_t part_max;
  uint64_t part_id;
  uint64_t part_sum;
  uint64_t token_map;  // [out_features] I32, or 0
  uint64_t token_ids;  // [T] I32
  uint64_t logprobs;   // [T] F32, or 0
  uint32_t num_parts;
  uint32_t reserved;
};

struct LinearArgmaxLogitsParams {
  uint64_t logits;     // [T, num_logits] F32
  uint64_t token_map;  // [num_logits] I32, or 0
  uint64_t token_ids;  // [T] I32
  uint64_t logprobs;   // [T] F32, or 0
  uint32_t num_logits;
  uint32_t reserved;
};

/// moe_experts_up and moe_experts_down: grid.y is the slot among the experts that have pairs.
struct MoeExpertsParams {
  WeightParams weight;      // [E, 2*I, H] gate rows first, or [E, H, I]
  uint64_t x;               // rows of `x_stride` elements
  uint64_t expert_offsets;  // [E+1]
  uint64_t expert_pairs;    // [P]
  uint64_t out;             // [P, out_features]
  uint64_t x_stride;
  uint32_t pairs_per_row;  // pair p reads row p / pairs_per_row
  uint32_t num_experts;
  uint32_t in_features;
  uint32_t out_features;
  uint32_t num_slices;
  uint32_t x_is_bf16;
  uint32_t out_is_bf16;
  uint32_t reserved;
};

}  // namespace foretoken::gpu
