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
  RingCursor turn;  // where each group's next row of tiles begins
  uint32_t group = 0;
  for (uint32_t first = share.first; first < share.end; first += Rows::kTileResults * kShape.blocks) {
    RingCursor cursor = turn;
    const bool exists = index < kShape.stage_rows() && Rows::exists(first, share.end, index);
    const uint32_t num_rows = __popc(gpu::lane_ballot(exists));
    const WeightRow row = Rows::weight_row(p, first, share.end, index);
    const gpu::WeightParams& w = p.part[row.part].weight;
    const uint64_t codes = w.codes + row.row * row_bytes + share.first_slice * kSliceBytes;
    const uint64_t scales = w.scale + uint64_t{row.row} * w.scale_columns + share.first_slice * kShape.scale_bytes;
    for (uint32_t slice = 0; slice < share.num_slices; slice += kShape.stage_slices()) {
      const uint32_t slices = smaller(share.num_slices - slice, kShape.stage_slices());
      const uint32_t place = group * p.num_stages + cursor.slot;
      memory.empty[place].wait(cursor.parity ^ 1U);
      Barrier& full = memory.full[place];
      const uint32_t stage = shared_address(memory.stage(place));
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
    if (++group == kShape.groups) {
      group = 0;
      turn = cursor;
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

/// A lane's sums of its tiles, in two chains of products.
template <StreamShape kShape>
struct StreamSums {
  float tile[kShape.blocks][2][4];
};

/// Adds the products of one slice of the first `kBlocks` tiles. `codes` is the slice in the lane's first row, `scales` that row's
/// scales.
template <class Format, uint32_t kBlocks>
FORETOKEN_DEVICE void multiply_slice(const uint8_t* codes, const uint8_t* scales, const StreamInput<Format>& x, uint32_t slice,
                                     StreamSums<Format::kShape>& sums) {
  constexpr StreamShape kShape = Format::kShape;
  constexpr uint32_t kParts = kShape.fragments() / 2;
  RowPieces<kShape> rows[kBlocks][2];  // of each tile, rows lane / 4 and lane / 4 + 8
#pragma unroll
  for (uint32_t i = 0; i < 2 * kBlocks; ++i) rows[i / 2][i % 2].load(codes + i * 8 * kShape.row_stride());
#pragma unroll
  for (uint32_t j = 0; j < 2; ++j) {
    decltype(Format::piece_scales(scales, j)) row_scales[kBlocks][2];
#pragma unroll
    for (uint32_t i = 0; i < 2 * kBlocks; ++i) {
      row_scales[i / 2][i % 2] = Format::piece_scales(scales + i * 8 * kShape.scale_stride(), j);
    }
#pragma unroll
    for (uint32_t part = 0; part < kParts; ++part) {
      const uint4 b = x.fragment(slice, j * kParts + part);
#pragma unroll
      for (uint32_t i = 0; i < kBlocks; ++i) {
        uint32_t low[4];
        uint32_t high[4];
        Format::decode(rows[i][0].piece[j], row_scales[i][0], part, low);
        Format::decode(rows[i][1].piece[j], row_scales[i][1], part, high);
        multiply_add<kShape.half>(sums.tile[i][0], low[0], high[0], low[1], high[1], b.x, b.y);
        multiply_add<kShape.half>(sums.tile[i][1], low[2], high[2], low[3], high[3], b.z, b.w);
      }
    }
  }
}

/// Hands a warp's sums of a tile to the epilogue, which for buffer b is that of work group b % cluster.
template <StreamShape kShape>
FORETOKEN_DEVICE void hand_over(const StreamMemory<kShape>& memory, const StreamShare& share, uint32_t stage_row, uint32_t block,
                                float4 sums) {
  const uint32_t split = threadIdx.x / kLanes % kShape.split;
  const uint32_t buffer = stage_row % kShape.sum_buffers();
  const uint32_t index = buffer * kShape.blocks + block;
  float4* place = memory.sums + ((index * kShape.cluster + share.rank) * kShape.split + split) * kLanes + threadIdx.x % kLanes;
  const uint32_t parity = stage_row / kShape.sum_buffers() % 2 ^ 1U;
  if constexpr (kShape.cluster == 1) {
    memory.unused[index].wait(parity);
    *place = sums;
    memory.summed[index].arrive_as_warp();
  } else {
    memory.unused[index].wait_for_cluster(parity);
    store_at(buffer % kShape.cluster, shared_address(place), sums);
    memory.summed[index].arrive_as_warp_at(buffer % kShape.cluster);
  }
}

/// Adds the products of one slice, with its factors: those of the lane's weight rows, and those of x.
template <class Format, uint32_t kBlocks>
FORETOKEN_DEVICE void add_slice(const uint8_t* codes, const uint8_t* scales, const StreamInput<Format>& x, uint32_t slice,
                                const float2 (&inner)[Format::kShape.blocks], StreamSums<Format::kShape>& sums) {
  constexpr StreamShape kShape = Format::kShape;
  if constexpr (kShape.half) {
    StreamSums<kShape> products{};
    multiply_slice<Format, kBlocks>(codes, scales, x, slice, products);
    const float2 outer = x.scale(slice);
#pragma unroll
    for (uint32_t b = 0; b < kBlocks; ++b) {
      const float factor[4] = {inner[b].x * outer.x, inner[b].x * outer.y, inner[b].y * outer.x, inner[b].y * outer.y};
      const float(&product)[2][4] = products.tile[b];
      float(&sum)[4] = sums.tile[b][0];
#pragma unroll
      for (int i = 0; i < 4; ++i) sum[i] = fmaf(product[0][i] + product[1][i], factor[i], sum[i]);
    }
  } else {
    multiply_slice<Format, kBlocks>(codes, scales, x, slice, sums);
  }
}

/// Slices [first, end) of a row.
struct SliceRun {
  uint32_t first, end;
};

/// The slices that warp `warp` of `split` has of the stage that begins with slice `base`.
template <StreamShape kShape>
FORETOKEN_DEVICE SliceRun slices_of(uint32_t base, uint32_t warp, uint32_t num_slices) {
  if constexpr (kShape.run == 1) {
    return {base + warp, smaller(base + warp + 1, num_slices)};
  } else {
    const uint32_t slices = smaller(num_slices - base, kShape.stage_slices());
    const uint32_t each = (slices + kShape.split - 1) / kShape.split;
    return {base + smaller(warp * each, slices), base + smaller((warp + 1) * each, slices)};
  }
}

/// A warp that multiplies: its slices of every stage of its group. Where no other group needs them, it brings in its slices of x
/// while it goes through its first tiles.
template <class Format, bool kPaired>
FORETOKEN_DEVICE void multiply_tiles(const StreamParams& p, const StreamShare& share,
                                     const StreamMemory<Format::kShape>& memory) {
  using Rows = StageRows<kPaired>;
  constexpr StreamShape kShape = Format::kShape;
  constexpr bool kOwnInput = kShape.groups == 1;
  static_assert(!kOwnInput || kShape.run == 1);
  constexpr uint32_t kStageResults = Rows::kTileResults * kShape.blocks;
  const uint32_t lane = threadIdx.x % kLanes;
  const uint32_t warp = threadIdx.x / kLanes % kShape.split;
  const uint32_t group = kShape.groups == 1 ? 0 : threadIdx.x / kLanes / kShape.split;
  const typename Format::template Input<Format> x(p, share, memory);
  const auto fetch = [&](uint32_t slice) {
    if (slice < share.num_slices) x.fetch(slice);
    commit_copies();
  };
  if constexpr (kOwnInput) {
    for (uint32_t i = 0; i < kSlicesAhead; ++i) fetch(warp + i * kShape.split);
  } else {
    load_shared_input(x, share);
  }
  RingCursor cursor;
  uint32_t stage_row = group;
  for (uint32_t first = share.first + group * kStageResults; first < share.end;
       first += kStageResults * kShape.groups, stage_row += kShape.groups) {
    decltype(Format::inner_scales(p, WeightRow{}, WeightRow{}, 0)) inner_scales[kShape.blocks];
#pragma unroll
    for (uint32_t b = 0; b < kShape.blocks; ++b) {
      const uint32_t row = b * kTileRows + lane / 4;
      inner_scales[b] = Format::inner_scales(p, Rows::weight_row(p, first, share.end, row),
                                             Rows::weight_row(p, first, share.end, row + 8), share.first_slice);
    }
    // The last row of tiles may have but one.
    const bool all_tiles = kShape.blocks == 1 || Rows::exists(first, share.end, kTileRows);
    StreamSums<kShape> sums{};
    for (uint32_t base = 0; base < share.num_slices; base += kShape.stage_slices()) {
      const SliceRun run = slices_of<kShape>(base, warp, share.num_slices);
      float2 inner[kShape.run][kShape.blocks];
#pragma unroll
      for (uint32_t i = 0; i < kShape.run * kShape.blocks; ++i) {
        const uint32_t slice = run.first + i / kShape.blocks;
        inner[i / kShape.blocks][i % kShape.blocks] = inner_scales[i % kShape.blocks].load(smaller(slice, share.num_slices - 1));
      }
      if (kOwnInput && stage_row == 0) {
        fetch(run.first + kSlicesAhead * kShape.split);
        wait_for_copies<kSlicesAhead>();
        __syncwarp();
        if (kShape.half && run.first < share.num_slices) x.convert(run.first);
        __syncwarp();
      }
      const uint32_t place = group * p.num_stages + cursor.slot;
      memory.full[place].wait(cursor.parity);
      const uint8_t* stage = memory.stage(place);
#pragma unroll
      for (uint32_t i = 0; i < kShape.run; ++i) {
        const uint32_t slice = run.first + i;
        if (slice >= run.end) break;
        const uint8_t* codes = stage + memory.row_offset(lane / 4) + (slice - base) * kSliceBytes;
        const uint8_t* scales = stage + memory.scale_offset(lane / 4) + (slice - base) * kShape.scale_bytes;
        if (all_tiles) {
          add_slice<Format, kShape.blocks>(codes, scales, x, slice, inner[i], sums);
        } else {
          add_slice<Format, 1>(codes, scales, x, slice, inner[i], sums);
        }
      }
      memory.empty[place].arrive_as_warp();
      cursor.advance(p.num_stages);
    }
#pragma unroll
    for (uint32_t b = 0; b < kShape.blocks; ++b) {
      float(&sum)[4] = sums.tile[b][0];
      if constexpr (!kShape.half) {
#pragma unroll
        for (int i = 0; i < 4; ++i) sum[i] += sums.tile[b][1][i];
      }
      hand_over(memory, share, stage_row, b, make_float4(sum[0], sum[1], sum[2], sum[3]));
    }
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
  for (uint32_t first = share.first; first < share.end; first += Rows::kTileResults * kShape.blocks, ++stage_row) {
    if (stage_row % kShape.cluster != share.rank) continue;
    for (uint32_t tile = 0; tile < kShape.blocks; ++tile) {
      if ((stage_row / kShape.cluster * kShape.blocks + tile) % kShape.epilogues != warp) continue;
      const uint32_t row = tile * kTileRows + lane / 4;
      TileResults results;
      results.low = Rows::weight_row(p, first, share.end, row);
      results.high = Rows::weight_row(p, first, share.end, row + 8);
      results.has_low = Rows::exists(first, share.end, row);
      results.has_high = Rows::exists(first, share.end, row + 8);
      const float low_scale = Format::outer_scale(p.part[results.low.part].weight, results.low.row);
      const float high_scale = Format::outer_scale(p.part[results.high.part].weight, results.high.row);

      const uint32_t index = stage_row % kShape.sum_buffers() * kShape.blocks + tile;
      const uint32_t parity = stage_row / kShape.sum_buffers() % 2;
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
      if constexpr (kShape.cluster == 1) {
        memory.unused[index].arrive_as_warp();
      } else {
#pragma unroll
        for (uint32_t rank = 0; rank < kShape.cluster; ++rank) memory.unused[index].arrive_as_warp_at(rank);
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
