// Parameters of the experts' products in prefill, on tensor cores.
#pragma once

#include <cstdint>

#include "backends/cuda/kernels/prefill_params.h"
#include "backends/gpu/linear_params.h"

namespace foretoken::cuda {

/// How the rows of an expert are cut into tiles: by few where an expert has few.
inline constexpr PrefillTile kFewPairsTile{.rows = 32, .columns = 128, .threads = 128, .group_memory = 4 * 160 * 128};
inline constexpr PrefillTile kManyPairsTile = kLargePrefillTile;

/// moe_prefill_up_FORMAT, moe_prefill_down_FORMAT and, for BF16 weights, the same with _many at the end take
/// gpu::MoeExpertsParams: x in BF16, K a multiple of kPrefillDepth, num_slices unused. grid: (tiles of columns, slot among the
/// experts that have pairs); the tiles of up have half as many columns.

}  // namespace foretoken::cuda
