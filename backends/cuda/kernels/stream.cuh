// Linear layers with few rows of x and a large weight, read as fast as memory gives it (sm_80 and later). A work group stays on
// its multiprocessor and takes an even share of the weight's rows, 16 at a time: one warp keeps a ring of stages full with copies
// of row segments, others multiply them on tensor cores, a last one adds their sums and stores the results.
//
// The weight rows are the 16-row operand of mma.m16n8k16, the rows of x are its 8 columns. A column's sums do not depend on the
// other columns, so a row of x gives the same bits in any company. Within 16 weights k is permuted so that what a lane needs of a
// row is 16 consecutive bytes, of the weight as of x.
#pragma once

#include "backends/cuda/kernels/stream_input.cuh"
#include "backends/gpu/kernel_entry.h"

namespace foretoken::cuda {
namespace {

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
    for (uint32_t slice = 0; slice < share.num_slices; slice += kShape.split) {
      const uint32_t slices = smaller(share.num_slices - slice, kShape.split);
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

/// Slices of x on their way while a warp goes through its first tile.
constexpr int kSlicesAhead = 6;

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

/// The lane's two pieces of one row of a slice, number t and t + 4 of 8. Rows lie at multiples of a line of banks, so lanes of
/// odd rows read their second piece first: neighbouring rows meet no conflict.
struct RowPieces {
  uint4 piece[2];

  FORETOKEN_DEVICE explicit RowPieces(const uint8_t* slice) {
    const bool odd = threadIdx.x / 4 % 2 != 0;
    const uint32_t t = threadIdx.x % 4 * 16;
    const uint4 first = *reinterpret_cast<const uint4*>(slice + t + (odd ? 64 : 0));
    const uint4 second = *reinterpret_cast<const uint4*>(slice + t + (odd ? 0 : 64));
    piece[0] = odd ? second : first;
    piece[1] = odd ? first : second;
  }
};

/// Adds the products of one slice of 16 rows. `codes` is the slice in the lane's first row of the tile, `scales` that row's
/// scales.
template <class Format>
FORETOKEN_DEVICE void multiply_slice(const uint8_t* codes, const uint8_t* scales, const StreamInput<Format>& x, uint32_t slice,
                                     float (&sums)[2][4]) {
  constexpr StreamShape kShape = Format::kShape;
  constexpr uint32_t kParts = kShape.fragments() / 2;
  const RowPieces low(codes);
  const RowPieces high(codes + 8 * kShape.row_stride());
#pragma unroll
  for (uint32_t j = 0; j < 2; ++j) {
    const auto low_scales = Format::piece_scales(scales, j);
    const auto high_scales = Format::piece_scales(scales + 8 * kShape.scale_stride(), j);
#pragma unroll
    for (uint32_t part = 0; part < kParts; ++part) {
      const uint4 b = x.fragment(slice, j * kParts + part);
      uint32_t a_low[4];
      uint32_t a_high[4];
      Format::decode(low.piece[j], low_scales, part, a_low);
      Format::decode(high.piece[j], high_scales, part, a_high);
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

/// A warp that multiplies: slices split, split + kShape.split, ... of each row of its tiles. While it goes through its first tile
/// it brings in its slices of x.
template <class Format, bool kPaired>
FORETOKEN_DEVICE void multiply_tiles(const StreamParams& p, const StreamShare& share,
                                     const StreamMemory<Format::kShape>& memory) {
  using Rows = StageRows<kPaired>;
  constexpr StreamShape kShape = Format::kShape;
  constexpr bool kOwnInput = kShape.tiles == 1;  // no other warp needs the same slices of x
  const uint32_t lane = threadIdx.x % kLanes;
  const uint32_t split = threadIdx.x / kLanes % kShape.split;
  const uint32_t row = threadIdx.x / kLanes / kShape.split * kTileRows + lane / 4;
  const typename Format::template Input<Format> x(p, share, memory);
  const auto fetch = [&](uint32_t slice) {
    if (slice < share.num_slices) x.fetch(slice);
    commit_copies();
  };
  if constexpr (kOwnInput) {
    for (uint32_t i = 0; i < kSlicesAhead; ++i) fetch(split + i * kShape.split);
  } else {
    load_shared_input(x, share);
  }
  RingCursor cursor;
  uint32_t stage_row = 0;
  for (uint32_t first = share.first; first < share.end; first += Rows::kTileResults * kShape.tiles, ++stage_row) {
    const auto inner_scales = Format::inner_scales(p, Rows::weight_row(p, first, share.end, row),
                                                   Rows::weight_row(p, first, share.end, row + 8), share.first_slice);
    float sums[2][4] = {};
    for (uint32_t base = 0; base < share.num_slices; base += kShape.split) {
      const uint32_t slice = base + split;
      const bool exists = slice < share.num_slices;
      const float2 inner = inner_scales.load(smaller(slice, share.num_slices - 1));
      if (kOwnInput && stage_row == 0) {
        fetch(slice + kSlicesAhead * kShape.split);
        wait_for_copies<kSlicesAhead>();
        __syncwarp();
        if (kShape.half && exists) x.convert(slice);
        __syncwarp();
      }
      memory.full[cursor.slot].wait(cursor.parity);
      if (exists) {
        const uint8_t* stage = memory.stage(cursor.slot);
        add_slice<Format>(stage + memory.row_offset(row) + split * kSliceBytes,
                          stage + memory.scale_offset(row) + split * kShape.scale_bytes, x, slice, inner, sums);
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
  if constexpr (!Format::kHasInstructions) return;
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
