// Parameters of the prefill kernels: products of BF16 activations by BF16 weights on tensor cores, and what brings others there.
#pragma once

#include <cstdint>

#include "backends/gpu/linear_params.h"

namespace foretoken::cuda {

/// Columns of a weight are taken this many at a time.
inline constexpr uint32_t kPrefillDepth = 64;

/// How a result is cut into tiles, one per work group: large ones where there are enough of them for the device.
struct PrefillTile {
  uint32_t rows;
  uint32_t columns;
  uint32_t threads;
  uint32_t group_memory;  // bytes
};
inline constexpr PrefillTile kLargePrefillTile{.rows = 128, .columns = 128, .threads = 128, .group_memory = 3 * 256 * 128};
inline constexpr PrefillTile kSmallPrefillTile{.rows = 64, .columns = 64, .threads = 128, .group_memory = 4 * 128 * 128};

/// Scales of whole weight rows, which results are multiplied by: row n has scale n / rows_per_scale.
struct RowScales {
  uint64_t scales;  // 0: none
  uint32_t rows_per_scale;
  uint32_t is_bf16;
};

/// grid: (tiles of rows, tiles of weight rows). prefill_linear_*, or prefill_silu_mul_* with gate and up, whose tile has half as
/// many columns.
struct PrefillParams {
  uint64_t x;       // [T, K] BF16
  uint64_t weight;  // [N, K] BF16
  uint64_t second;  // prefill_silu_mul: the up projection
  uint64_t out;     // [T, N]
  RowScales scales;
  RowScales second_scales;
  uint64_t x_stride;
  uint64_t out_stride;
  uint32_t num_rows;
  uint32_t in_features;  // a multiple of kPrefillDepth
  uint32_t out_features;
  uint32_t first_row;  // number of the first weight row among those that scales count
  uint32_t out_is_bf16;
  uint32_t stores_pairs;  // whether two neighbours in a row of `out` may be stored at once
};

inline constexpr uint32_t kConvertThreads = 256;
/// Elements that a thread converts.
inline constexpr uint32_t kConvertElements = 16;

/// prefill_round: rows of float32 to BF16. grid: (groups of a row, row).
struct PrefillRoundParams {
  uint64_t x;    // [T, K] F32
  uint64_t out;  // [T, K] BF16, dense
  uint64_t x_stride;
  uint32_t num_columns;  // a multiple of kConvertElements
  uint32_t reserved;
};

/// prefill_widen_FORMAT: weight rows first_row .. first_row + grid.y of any format to BF16. grid: (groups of a row, row).
struct PrefillWidenParams {
  gpu::WeightParams weight;
  uint64_t out;  // [rows, K] BF16, dense
  uint32_t first_row;
  uint32_t in_features;       // a multiple of kConvertElements
  uint32_t takes_row_scales;  // multiplies by the scales of whole rows too, which may round
  uint32_t reserved;
};

/// prefill_gate: out = silu(gate) * up, each times its row scales. grid: (groups of a row, row); a thread takes four elements.
struct PrefillGateParams {
  uint64_t gate;  // [T, N] F32, dense
  uint64_t up;    // like gate
  uint64_t out;   // [T, N]
  RowScales gate_scales;
  RowScales up_scales;
  uint64_t out_stride;
  uint32_t num_columns;  // a multiple of 4
  uint32_t first_row;    // as in PrefillParams
  uint32_t out_is_bf16;
  uint32_t reserved;
};

}  // namespace foretoken::cuda
