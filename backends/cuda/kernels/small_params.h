// Parameters of the latency kernels for small weights. Addresses are the device's; strides count elements between rows.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/gpu/linear_params.h"

namespace foretoken::cuda {

inline constexpr uint32_t kSmallThreads = 256;
inline constexpr uint32_t kSmallWarps = 8;
/// Weight rows that the warps of a slice take together: of gate and up half each.
inline constexpr uint32_t kSmallTileRows = 8;
/// Elements of K that a warp multiplies by x at a time.
inline constexpr uint32_t kSmallBatch = 256;
/// Weights of a launch, and where those of a pair come behind them.
inline constexpr uint32_t kSmallProjections = 4;
inline constexpr uint32_t kSmallPair = kSmallProjections;

/// One weight [N, K] and its result [T, N]. The order of a sum depends on `slice_bits` and K alone: units of 128 bytes of a row
/// go round the slices, each slice adds up its units in turn, and the sums of the slices are added in order.
struct SmallProjection {
  gpu::WeightParams weight;
  uint64_t out;
  uint64_t out_stride;
  uint32_t out_features;
  uint32_t slice_bits;   // 0 to 3: 2^slice_bits warps share a row
  uint32_t first_group;  // work groups before those of this weight; of one that is not there more than there are
  uint32_t out_is_bf16;
};

/// grid: (work groups of all projections, then those of the pair; row tiles). The pair is gate and up; its result, silu(gate x) *
/// up x, is that of gate.
struct SmallParams {
  SmallProjection projection[kSmallProjections + 2];  // the pair comes last
  uint64_t x;                                         // [T, K] BF16
  uint64_t x_stride;
  uint32_t num_rows;
  uint32_t in_features;
  uint32_t releases_early;  // the next kernel may start while this one waits: good for few kernels in turn, no more
  uint32_t reserved;
};

}  // namespace foretoken::cuda
