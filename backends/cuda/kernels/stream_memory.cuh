// What a work group of a streaming kernel has to do, and where in shared memory it does it.
#pragma once

#include "backends/cuda/kernels/async_copy.cuh"
#include "backends/cuda/kernels/stream_params.h"
#include "backends/gpu/numeric.inl"

namespace foretoken::cuda {
namespace {

using gpu::kLanes;
using gpu::lane_xor;
using gpu::smaller;

/// This work group's share: results (weight rows, or pairs of them) [first, end), of which its cluster's other work groups have
/// other parts of K; slices [first_slice, first_slice + num_slices) of each row; rows [first_x, first_x + num_x) of x.
struct StreamShare {
  uint32_t rank;
  uint32_t first, end;
  uint32_t first_slice, num_slices;
  uint32_t first_x, num_x;
};

template <StreamShape kShape>
FORETOKEN_DEVICE StreamShare stream_share(const StreamParams& p) {
  StreamShare share;
  share.rank = kShape.cluster == 1 ? 0 : cluster_rank();
  const uint32_t cluster = blockIdx.x / kShape.cluster;
  const uint32_t clusters = gridDim.x / kShape.cluster;
  share.first = static_cast<uint32_t>(uint64_t{p.out_features} * cluster / clusters);
  share.end = static_cast<uint32_t>(uint64_t{p.out_features} * (cluster + 1) / clusters);
  const uint32_t slices = p.in_features / kShape.slice_elements;
  share.first_slice = slices * share.rank / kShape.cluster;
  share.num_slices = slices * (share.rank + 1) / kShape.cluster - share.first_slice;
  share.first_x = blockIdx.y * p.group_rows;
  share.num_x = smaller(p.group_rows, p.num_rows - share.first_x);
  return share;
}

/// Shared memory of a work group, in the order that StreamShape counts.
template <StreamShape kShape>
struct StreamMemory {
  Barrier* full;    // [groups, stages]
  Barrier* empty;   // [groups, stages]
  Barrier* summed;  // [sum_buffers, blocks]: all partial sums of a tile are there
  Barrier* unused;  // [sum_buffers, blocks]: and were read
  float4* sums;     // [sum_buffers, blocks, cluster, split, lanes]
  float* x_scale;   // [slices, kTileColumns]
  uint4* x;         // [slices, fragments, rows of x, 4]
  uint8_t* ring;    // [groups, stages, stage_rows, row_stride], scales behind the codes of each stage

  FORETOKEN_DEVICE StreamMemory(uint8_t* memory, const StreamParams& p) {
    const uint32_t slices = kShape.group_slices(p.in_features);
    full = reinterpret_cast<Barrier*>(memory);
    empty = full + kMaxStages;
    summed = empty + kMaxStages;
    unused = summed + kShape.sum_tiles();
    sums = reinterpret_cast<float4*>(memory + kShape.barrier_bytes());
    x_scale = reinterpret_cast<float*>(memory + kShape.barrier_bytes() + kShape.sum_bytes());
    x = reinterpret_cast<uint4*>(reinterpret_cast<uint8_t*>(x_scale) + kShape.x_scale_bytes(slices));
    ring = memory + kShape.fixed_bytes(p.in_features, p.group_rows);
  }

  FORETOKEN_DEVICE void init() {
    if (threadIdx.x == 0) {
      for (uint32_t i = 0; i < kMaxStages; ++i) {
        full[i].init(kShape.loaders * (kBulkCopies ? 1 : kLanes));
        empty[i].init(kShape.split * kWarpArrivals);
      }
      for (uint32_t i = 0; i < kShape.sum_tiles(); ++i) {
        summed[i].init(kShape.cluster * kShape.split * kWarpArrivals);
        unused[i].init(kWarpArrivals);
      }
      publish_barriers();
    }
    if constexpr (kShape.cluster == 1) {
      __syncthreads();
    } else {
      synchronize_cluster();
    }
  }
  FORETOKEN_DEVICE uint8_t* stage(uint32_t slot) const { return ring + slot * kShape.stage_bytes(); }
  FORETOKEN_DEVICE static uint32_t row_offset(uint32_t row) { return row * kShape.row_stride(); }
  FORETOKEN_DEVICE static uint32_t scale_offset(uint32_t row) {
    return kShape.stage_rows() * kShape.row_stride() + row * kShape.scale_stride();
  }
};

/// The lane's two pieces of one row of a slice, number t and t + 4 of 8. Where rows lie at multiples of a line of banks, lanes of
/// odd rows read their second piece first: neighbouring rows meet no conflict.
template <StreamShape kShape>
struct RowPieces {
  uint4 piece[2];

  FORETOKEN_DEVICE void load(const uint8_t* slice) {
    const uint32_t t = threadIdx.x % 4 * 16;
    if constexpr (kShape.row_stride() % 128 != 0) {
      piece[0] = *reinterpret_cast<const uint4*>(slice + t);
      piece[1] = *reinterpret_cast<const uint4*>(slice + t + 64);
    } else {
      const bool odd = threadIdx.x / 4 % 2 != 0;
      const uint4 first = *reinterpret_cast<const uint4*>(slice + t + (odd ? 64 : 0));
      const uint4 second = *reinterpret_cast<const uint4*>(slice + t + (odd ? 0 : 64));
      piece[0] = odd ? second : first;
      piece[1] = odd ? first : second;
    }
  }
};

/// A place in the ring, and the parity of the phase that its full barrier is in.
struct RingCursor {
  uint32_t slot = 0;
  uint32_t parity = 0;
  FORETOKEN_DEVICE void advance(uint32_t num_stages) {
    if (++slot < num_stages) return;
    slot = 0;
    parity ^= 1U;
  }
};

/// A row of one of the weights.
struct WeightRow {
  uint32_t part;
  uint32_t row;
};

/// Results of a stage, and how its rows follow from them: one row each, or, paired, 8 results of 16 rows, those of part 0 first.
template <bool kPaired>
struct StageRows {
  static constexpr uint32_t kTileResults = kPaired ? kTileRows / 2 : kTileRows;

  /// Row `index` of a stage that begins with result `first`; past the last result it is repeated.
  FORETOKEN_DEVICE static WeightRow weight_row(const StreamParams& p, uint32_t first, uint32_t end, uint32_t index) {
    if constexpr (kPaired) {
      const uint32_t result = first + index / kTileRows * kTileResults + index % kTileResults;
      return {index % kTileRows / kTileResults, smaller(result, end - 1)};
    } else {
      return part_of(p, smaller(first + index, end - 1));
    }
  }
  /// Whether row `index` is that of a result before `end`.
  FORETOKEN_DEVICE static bool exists(uint32_t first, uint32_t end, uint32_t index) {
    return kPaired ? first + index / kTileRows * kTileResults + index % kTileResults < end : first + index < end;
  }

 private:
  FORETOKEN_DEVICE static WeightRow part_of(const StreamParams& p, uint32_t result) {
    uint32_t part = 0;
    uint32_t begin = 0;
    while (result >= p.part[part].end) begin = p.part[part++].end;
    return {part, result - begin};
  }
};

}  // namespace
}  // namespace foretoken::cuda
