// Linear layers with few rows of x and a large weight, read as fast as memory gives it (sm_80 and later). A work group stays on
// its multiprocessor and takes an even share of the weight's rows, 16 at a time: one warp keeps a ring of stages full with copies
// of row segments, others multiply them on tensor cores, a last one adds their sums and stores the results.
//
// The weight rows are the 16-row operand of mma.m16n8k16, the rows of x are its 8 columns. A column's sums do not depend on the
// other columns, so a row of x gives the same bits in any company. Within 16 weights k is permuted so that what a lane needs of a
// row is 16 consecutive bytes, of the weight as of x.
#pragma once

#include "backends/cuda/kernels/async_copy.cuh"
#include "backends/cuda/kernels/stream_params.h"
#include "backends/gpu/kernel_entry.h"
#include "backends/gpu/numeric.inl"

namespace foretoken::cuda {
namespace {

using gpu::kLanes;
using gpu::lane_xor;
using gpu::smaller;

/// Adds to c the products of 16 weight rows (a) and 8 rows of x (b) over 16 k; of FP16, or of BF16.
template <bool kHalf>
FORETOKEN_DEVICE void multiply_add(float (&c)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0, uint32_t b1) {
  if constexpr (kHalf) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
  }
}

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
  static constexpr uint32_t kSumBarriers = kSumBuffers * kShape.tiles;
  Barrier* full;    // [kMaxStages]
  Barrier* empty;   // [kMaxStages]
  Barrier* summed;  // [kSumBuffers, tiles]: all partial sums of a tile are there
  Barrier* unused;  // [kSumBuffers, tiles]: and were read
  float4* sums;     // [kSumBuffers, tiles, cluster, split, lanes]
  float* x_scale;   // [slices, kTileColumns]
  uint4* x;         // [slices, fragments, rows of x, 4]
  uint8_t* ring;    // [stages, stage_rows, row_stride], scales behind the codes of each stage

  FORETOKEN_DEVICE StreamMemory(uint8_t* memory, const StreamParams& p) {
    const uint32_t slices = kShape.group_slices(p.in_features);
    full = reinterpret_cast<Barrier*>(memory);
    empty = full + kMaxStages;
    summed = empty + kMaxStages;
    unused = summed + kSumBarriers;
    sums = reinterpret_cast<float4*>(memory + kShape.barrier_bytes());
    x_scale = reinterpret_cast<float*>(memory + kShape.barrier_bytes() + kShape.sum_bytes());
    x = reinterpret_cast<uint4*>(reinterpret_cast<uint8_t*>(x_scale) + kShape.x_scale_bytes(slices));
    ring = memory + kShape.fixed_bytes(p.in_features, p.group_rows);
  }

  FORETOKEN_DEVICE void init() {
    if (threadIdx.x == 0) {
      for (uint32_t i = 0; i < kMaxStages; ++i) {
        full[i].init(kShape.loaders * (kBulkCopies ? 1 : kLanes));
        empty[i].init(kShape.multipliers());
      }
      for (uint32_t i = 0; i < kSumBarriers; ++i) {
        summed[i].init(kShape.cluster * kShape.split);
        unused[i].init(1);
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

/// Copies one segment of `bytes` per lane that has one; all lanes call it.
FORETOKEN_DEVICE void copy_segments(uint32_t destination, uint64_t source, uint32_t bytes, bool exists, const Barrier& barrier,
                                    uint64_t policy) {
  if constexpr (kBulkCopies) {
    if (exists) copy_bulk(destination, source, bytes, barrier, policy);
  } else {
    const uint32_t lane = threadIdx.x % kLanes;
    for (uint32_t lanes = gpu::lane_ballot(exists); lanes != 0; lanes &= lanes - 1) {
      const int owner = __ffs(static_cast<int>(lanes)) - 1;
      const uint32_t to = __shfl_sync(0xffffffffU, destination, owner);
      const uint64_t from = __shfl_sync(0xffffffffU, source, owner);
      for (uint32_t byte = lane * 16; byte < bytes; byte += kLanes * 16) copy_16(to + byte, from + byte);
    }
  }
}

/// One of the warps that keep the ring full: rows warp, warp + loaders, ... of each stage. It reads nothing but weights, so it
/// waits for no earlier kernel.
template <StreamShape kShape, bool kPaired>
FORETOKEN_DEVICE void load_weights(const StreamParams& p, const StreamShare& share, const StreamMemory<kShape>& memory,
                                   uint32_t warp) {
  using Rows = StageRows<kPaired>;
  static_assert(kShape.stage_rows() <= kShape.loaders * kLanes);
  const uint32_t lane = threadIdx.x % kLanes;
  const uint32_t index = lane * kShape.loaders + warp;
  const uint64_t policy = evict_first_policy();
  const uint64_t row_bytes = uint64_t{p.in_features / kShape.slice_elements} * kSliceBytes;
  RingCursor cursor;
  for (uint32_t first = share.first; first < share.end; first += Rows::kTileResults * kShape.tiles) {
    const bool exists = index < kShape.stage_rows() && Rows::exists(first, share.end, index);
    const uint32_t num_rows = __popc(gpu::lane_ballot(exists));
    const WeightRow row = Rows::weight_row(p, first, share.end, index);
    const gpu::WeightParams& w = p.part[row.part].weight;
    const uint64_t codes = w.codes + row.row * row_bytes + share.first_slice * kSliceBytes;
    const uint64_t scales = w.scale + uint64_t{row.row} * w.scale_columns + share.first_slice * kShape.scale_bytes;
    for (uint32_t slice = 0; slice < share.num_slices; slice += kShape.stage_slices()) {
      const uint32_t slices = smaller(share.num_slices - slice, kShape.stage_slices());
      memory.empty[cursor.slot].wait(cursor.parity ^ 1U);
      Barrier& full = memory.full[cursor.slot];
      const uint32_t stage = shared_address(memory.stage(cursor.slot));
      if (kBulkCopies && lane == 0) full.arrive_expecting(num_rows * slices * (kSliceBytes + kShape.scale_bytes));
      __syncwarp();
      copy_segments(stage + memory.row_offset(index), codes + slice * kSliceBytes, slices * kSliceBytes, exists, full, policy);
      if constexpr (kShape.scale_bytes > 0) {
        copy_segments(stage + memory.scale_offset(index), scales + slice * kShape.scale_bytes, slices * kShape.scale_bytes,
                      exists, full, policy);
      }
      if constexpr (!kBulkCopies) full.arrive_after_copies();
      cursor.advance(p.num_stages);
    }
  }
}

/// Eight BF16 as FP16, times `scale`.
FORETOKEN_DEVICE uint4 to_half(const uint4& values, float scale) {
  const auto pair = [scale](uint32_t two) {
    const __half2 halves =
        __floats2half2_rn(gpu::bits_to_float(two << 16) * scale, gpu::bits_to_float(two & 0xffff0000U) * scale);
    return *reinterpret_cast<const uint32_t*>(&halves);
  };
  return make_uint4(pair(values.x), pair(values.y), pair(values.z), pair(values.w));
}

/// The largest magnitude among eight BF16, as bits.
FORETOKEN_DEVICE uint32_t largest_bf16(const uint4& values) {
  constexpr uint32_t kMagnitude = 0x7fff7fffU;
  const uint32_t largest =
      __vmaxu2(__vmaxu2(values.x & kMagnitude, values.y & kMagnitude), __vmaxu2(values.z & kMagnitude, values.w & kMagnitude));
  return max(largest >> 16, largest & 0xffffU);
}

/// The rows of x as a warp brings them into shared memory: slice by slice, as fragments. Fragment f of lane (g, t) of a slice
/// lies at [f, g, t] and holds eight elements of row g: those that belong to the f % kParts-th 8 codes of piece t + f / kParts *
/// 4, of the 8 pieces of 16 bytes that a slice of codes has.
template <class Format>
class StreamInput {
 public:
  FORETOKEN_DEVICE StreamInput(const StreamParams& p, const StreamShare& share, const StreamMemory<Format::kShape>& memory)
      : x_(memory.x),
        x_scale_(memory.x_scale),
        step_(share.num_x * 4),
        has_row_(threadIdx.x % kLanes / 4 < share.num_x),
        source_(p.x + ((share.first_x + threadIdx.x % kLanes / 4) * p.x_stride + share.first_slice * kShape.slice_elements) * 2) {
  }

  /// Begins to copy a slice; all lanes call it. Four lanes read 64 consecutive bytes of their row at a time.
  FORETOKEN_DEVICE void fetch(uint32_t slice) const {
    if (!has_row_) return;
    const uint32_t lane = threadIdx.x % kLanes;
#pragma unroll
    for (uint32_t i = 0; i < kShape.fragments(); ++i) {
      const uint32_t eight = i * 4 + lane % 4;
      const uint32_t piece = eight / kParts;
      const uint32_t fragment = piece / 4 * kParts + eight % kParts;
      copy_16(shared_address(fragments(slice) + fragment * step_ + lane / 4 * 4 + piece % 4),
              source_ + (slice * kShape.slice_elements + eight * 8) * 2);
    }
  }

  /// Brings a slice, whose copies all lanes see, into FP16 in place: times the power of two that puts the largest of the row's
  /// slice into [2^14, 2^15). BF16 has 8 significant bits, so everything down to 2^-32 of the largest stays exact; what lies
  /// below is rounded to multiples of 2^-39 of it, far finer than the float32 sum it enters. The inverse power is kept for that
  /// sum.
  FORETOKEN_DEVICE void convert(uint32_t slice) const {
    uint4* own = fragments(slice) + threadIdx.x % kLanes;
    uint4 values[kShape.fragments()];
    uint32_t largest = 0;
#pragma unroll
    for (uint32_t i = 0; i < kShape.fragments(); ++i) {
      values[i] = has_row_ ? own[i * step_] : make_uint4(0, 0, 0, 0);
      largest = max(largest, largest_bf16(values[i]));
    }
    largest = max(largest, lane_xor(largest, 1));
    largest = max(largest, lane_xor(largest, 2));
    if (!has_row_) return;
    constexpr uint32_t kLeast = 15;  // exponents below, of numbers under 2^-112, would ask for a power that float32 does not have
    const uint32_t exponent = max(largest >> 7, kLeast);
    const float scale = gpu::bits_to_float((127 + 127 + 14 - exponent) << 23);
#pragma unroll
    for (uint32_t i = 0; i < kShape.fragments(); ++i) own[i * step_] = Format::arrange(to_half(values[i], scale));
    if (threadIdx.x % 4 == 0) {
      x_scale_[slice * kTileColumns + threadIdx.x % kLanes / 4] = gpu::bits_to_float((exponent - 14) << 23);
    }
  }

  /// The lane's fragment of a slice; zeros where it has no row.
  FORETOKEN_DEVICE uint4 fragment(uint32_t slice, uint32_t index) const {
    return has_row_ ? fragments(slice)[index * step_ + threadIdx.x % kLanes] : make_uint4(0, 0, 0, 0);
  }
  /// What the FP16 of a slice must be multiplied by, of the two rows that are the lane's columns of a product.
  FORETOKEN_DEVICE float2 scale(uint32_t slice) const {
    return *reinterpret_cast<const float2*>(x_scale_ + slice * kTileColumns + threadIdx.x % 4 * 2);
  }

 private:
  static constexpr StreamShape kShape = Format::kShape;
  static constexpr uint32_t kParts = kShape.fragments() / 2;

  FORETOKEN_DEVICE uint4* fragments(uint32_t slice) const { return x_ + slice * kShape.fragments() * step_; }

  uint4* x_;
  float* x_scale_;
  uint32_t step_;  // from a fragment to the next
  bool has_row_;
  uint64_t source_;
};

/// Stages whose x is on its way while a warp goes through its first tile.
constexpr int kStagesAhead = 6;

/// Brings all of x in, where several warps need each slice.
template <class Format>
FORETOKEN_DEVICE void load_shared_input(const StreamInput<Format>& x, const StreamShare& share) {
  constexpr StreamShape kShape = Format::kShape;
  for (uint32_t slice = threadIdx.x / kLanes; slice < share.num_slices; slice += kShape.multipliers()) x.fetch(slice);
  commit_copies();
  wait_for_copies<0>();
  __syncwarp();
  if constexpr (kShape.half) {
    for (uint32_t slice = threadIdx.x / kLanes; slice < share.num_slices; slice += kShape.multipliers()) x.convert(slice);
  }
  asm volatile("bar.sync 1, %0;" ::"n"(kShape.multipliers() * kLanes) : "memory");
}

/// Adds the products of one slice of 16 rows. `codes` is the lane's place in its first row of the tile, `scales` that row's
/// scales.
template <class Format>
FORETOKEN_DEVICE void multiply_slice(const uint8_t* codes, const uint8_t* scales, const StreamInput<Format>& x, uint32_t slice,
                                     float (&sums)[2][4]) {
  constexpr StreamShape kShape = Format::kShape;
  constexpr uint32_t kParts = kShape.fragments() / 2;
#pragma unroll
  for (uint32_t j = 0; j < 2; ++j) {
    const uint4 low = *reinterpret_cast<const uint4*>(codes + j * 64);
    const uint4 high = *reinterpret_cast<const uint4*>(codes + j * 64 + 8 * kShape.row_stride());
    const auto low_scales = Format::piece_scales(scales, j);
    const auto high_scales = Format::piece_scales(scales + 8 * kShape.scale_stride(), j);
#pragma unroll
    for (uint32_t part = 0; part < kParts; ++part) {
      const uint4 b = x.fragment(slice, j * kParts + part);
      uint32_t a_low[4];
      uint32_t a_high[4];
      Format::decode(low, low_scales, part, a_low);
      Format::decode(high, high_scales, part, a_high);
      multiply_add<kShape.half>(sums[0], a_low[0], a_high[0], a_low[1], a_high[1], b.x, b.y);
      multiply_add<kShape.half>(sums[1], a_low[2], a_high[2], a_low[3], a_high[3], b.z, b.w);
    }
  }
}

/// Hands a warp's sums of a tile to the epilogue, which for buffer b is that of work group b % cluster.
template <StreamShape kShape>
FORETOKEN_DEVICE void hand_over(const StreamMemory<kShape>& memory, const StreamShare& share, uint32_t stage_row, float4 sums) {
  const uint32_t tile = threadIdx.x / kLanes / kShape.split;
  const uint32_t split = threadIdx.x / kLanes % kShape.split;
  const uint32_t buffer = stage_row % kSumBuffers;
  const uint32_t index = buffer * kShape.tiles + tile;
  float4* place = memory.sums + ((index * kShape.cluster + share.rank) * kShape.split + split) * kLanes + threadIdx.x % kLanes;
  const uint32_t parity = stage_row / kSumBuffers % 2 ^ 1U;
  if constexpr (kShape.cluster == 1) {
    memory.unused[index].wait(parity);
    *place = sums;
    __syncwarp();
    if (threadIdx.x % kLanes == 0) memory.summed[index].arrive();
  } else {
    memory.unused[index].wait_for_cluster(parity);
    store_at(buffer % kShape.cluster, shared_address(place), sums);
    __syncwarp();
    if (threadIdx.x % kLanes == 0) memory.summed[index].arrive_at(buffer % kShape.cluster);
  }
}

/// Adds the products of one slice, with its factors: those of the lane's two weight rows, and those of x.
template <class Format>
FORETOKEN_DEVICE void add_slice(const uint8_t* codes, const uint8_t* scales, const StreamInput<Format>& x, uint32_t slice,
                                float2 inner, float (&sums)[2][4]) {
  if constexpr (Format::kShape.half) {
    float products[2][4] = {};
    multiply_slice<Format>(codes, scales, x, slice, products);
    const float2 outer = x.scale(slice);
    const float factor[4] = {inner.x * outer.x, inner.x * outer.y, inner.y * outer.x, inner.y * outer.y};
#pragma unroll
    for (int i = 0; i < 4; ++i) sums[0][i] = fmaf(products[0][i] + products[1][i], factor[i], sums[0][i]);
  } else {
    multiply_slice<Format>(codes, scales, x, slice, sums);
  }
}

/// A warp that multiplies: of each stage, `run` slices of each row of its tile. While it goes through its first tile it brings in
/// its slices of x.
template <class Format, bool kPaired>
FORETOKEN_DEVICE void multiply_tiles(const StreamParams& p, const StreamShare& share,
                                     const StreamMemory<Format::kShape>& memory) {
  using Rows = StageRows<kPaired>;
  constexpr StreamShape kShape = Format::kShape;
  constexpr bool kOwnInput = kShape.tiles == 1;  // no other warp needs the same slices of x
  const uint32_t lane = threadIdx.x % kLanes;
  const uint32_t place = threadIdx.x / kLanes % kShape.split * kShape.run;  // the warp's slices of a stage
  const uint32_t row = threadIdx.x / kLanes / kShape.split * kTileRows + lane / 4;
  const StreamInput<Format> x(p, share, memory);
  const auto fetch = [&](uint32_t slice) {
#pragma unroll
    for (uint32_t i = 0; i < kShape.run; ++i) {
      if (slice + i < share.num_slices) x.fetch(slice + i);
    }
    commit_copies();
  };
  if constexpr (kOwnInput) {
    for (uint32_t i = 0; i < kStagesAhead; ++i) fetch(place + i * kShape.stage_slices());
  } else {
    load_shared_input(x, share);
  }
  RingCursor cursor;
  uint32_t stage_row = 0;
  for (uint32_t first = share.first; first < share.end; first += Rows::kTileResults * kShape.tiles, ++stage_row) {
    const auto inner_scales = Format::inner_scales(p, Rows::weight_row(p, first, share.end, row),
                                                   Rows::weight_row(p, first, share.end, row + 8), share.first_slice);
    float sums[2][4] = {};
    for (uint32_t base = place; base < share.num_slices + place; base += kShape.stage_slices()) {
      float2 inner[kShape.run];
#pragma unroll
      for (uint32_t i = 0; i < kShape.run; ++i) inner[i] = inner_scales.load(smaller(base + i, share.num_slices - 1));
      if (kOwnInput && stage_row == 0) {
        fetch(base + kStagesAhead * kShape.stage_slices());
        wait_for_copies<kStagesAhead>();
        __syncwarp();
        if constexpr (kShape.half) {
#pragma unroll
          for (uint32_t i = 0; i < kShape.run; ++i) {
            if (base + i < share.num_slices) x.convert(base + i);
          }
          __syncwarp();
        }
      }
      memory.full[cursor.slot].wait(cursor.parity);
      const uint8_t* stage = memory.stage(cursor.slot);
#pragma unroll
      for (uint32_t i = 0; i < kShape.run; ++i) {
        if (base + i < share.num_slices) {
          add_slice<Format>(stage + memory.row_offset(row) + (place + i) * kSliceBytes + lane % 4 * 16,
                            stage + memory.scale_offset(row) + (place + i) * kShape.scale_bytes, x, base + i, inner[i], sums);
        }
      }
      __syncwarp();
      if (lane == 0) memory.empty[cursor.slot].arrive();
      cursor.advance(p.num_stages);
    }
    if constexpr (!kShape.half) {
#pragma unroll
      for (int i = 0; i < 4; ++i) sums[0][i] += sums[1][i];
    }
    hand_over(memory, share, stage_row, make_float4(sums[0][0], sums[0][1], sums[0][2], sums[0][3]));
  }
}

/// The results of a tile, as a lane of an epilogue has them: value i is that of row lane / 4 + i / 2 * 8 of the tile and of row
/// first_x + lane % 4 * 2 + i % 2 of x.
struct TileResults {
  float value[4];
  WeightRow low, high;     // the lane's two rows of the weights
  bool has_low, has_high;  // whether they are results at all
};

/// A warp that adds partial sums, in the order of K, and gives the results to the epilogue.
template <class Format, class Epilogue>
FORETOKEN_DEVICE void finish_tiles(const StreamParams& p, const StreamShare& share, const StreamMemory<Format::kShape>& memory,
                                   uint32_t warp, Epilogue& epilogue) {
  constexpr StreamShape kShape = Format::kShape;
  using Rows = StageRows<Epilogue::kPaired>;
  const uint32_t lane = threadIdx.x % kLanes;
  uint32_t stage_row = 0;
  for (uint32_t first = share.first; first < share.end; first += Rows::kTileResults * kShape.tiles, ++stage_row) {
    if (stage_row % kShape.cluster != share.rank) continue;
    for (uint32_t tile = 0; tile < kShape.tiles; ++tile) {
      if ((stage_row / kShape.cluster * kShape.tiles + tile) % kShape.epilogues != warp) continue;
      const uint32_t row = tile * kTileRows + lane / 4;
      TileResults results;
      results.low = Rows::weight_row(p, first, share.end, row);
      results.high = Rows::weight_row(p, first, share.end, row + 8);
      results.has_low = Rows::exists(first, share.end, row);
      results.has_high = Rows::exists(first, share.end, row + 8);
      const float low_scale = Format::outer_scale(p.part[results.low.part].weight, results.low.row);
      const float high_scale = Format::outer_scale(p.part[results.high.part].weight, results.high.row);

      const uint32_t index = stage_row % kSumBuffers * kShape.tiles + tile;
      const uint32_t parity = stage_row / kSumBuffers % 2;
      if constexpr (kShape.cluster == 1) {
        memory.summed[index].wait(parity);
      } else {
        memory.summed[index].wait_for_cluster(parity);
      }
      constexpr uint32_t kPartials = kShape.cluster * kShape.split;
      const float4* partial = memory.sums + index * kPartials * kLanes + lane;
      float4 sum = partial[0];
#pragma unroll
      for (uint32_t i = 1; i < kPartials; ++i) {
        const float4 next = partial[i * kLanes];
        sum = make_float4(sum.x + next.x, sum.y + next.y, sum.z + next.z, sum.w + next.w);
      }
      __syncwarp();
      if constexpr (kShape.cluster == 1) {
        if (lane == 0) memory.unused[index].arrive();
      } else {
        if (lane < kShape.cluster) memory.unused[index].arrive_at(lane);
      }
      results.value[0] = sum.x * low_scale;
      results.value[1] = sum.y * low_scale;
      results.value[2] = sum.z * high_scale;
      results.value[3] = sum.w * high_scale;
      epilogue.take(p, share, results);
    }
  }
}

/// What a streaming kernel does. Format decodes the weight; Epilogue::take gets each tile's results, in ascending rows, and
/// Epilogue::finish is called by its warp after the last. `epilogue` is used by the epilogues' warps alone.
template <class Format, class Epilogue>
FORETOKEN_DEVICE void stream(const StreamParams& p, Epilogue& epilogue) {
  constexpr StreamShape kShape = Format::kShape;
  extern __shared__ __align__(128) uint8_t group_memory[];
  gpu::allow_next();
  StreamMemory<kShape> memory(group_memory, p);
  memory.init();
  const StreamShare share = stream_share<kShape>(p);
  const uint32_t warp = threadIdx.x / kLanes;
  if (warp < kShape.multipliers()) {
    gpu::wait_for_previous();
    multiply_tiles<Format, Epilogue::kPaired>(p, share, memory);
  } else if (warp < kShape.multipliers() + kShape.loaders) {
    load_weights<kShape, Epilogue::kPaired>(p, share, memory, warp - kShape.multipliers());
    gpu::wait_for_previous();
  } else {
    gpu::wait_for_previous();
    finish_tiles<Format>(p, share, memory, warp - kShape.multipliers() - kShape.loaders, epilogue);
    epilogue.finish(p, share);
  }
  if constexpr (kShape.cluster > 1) {
    __syncwarp();
    synchronize_cluster();  // no work group's shared memory goes while another may write there
  }
}

}  // namespace
}  // namespace foretoken::cuda
