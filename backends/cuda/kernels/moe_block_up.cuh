// moe_block_up: gate and up of the experts that a few rows pick, which each work group finds itself.
#pragma once

#include "backends/cuda/kernels/moe_block.cuh"

namespace foretoken::cuda {
namespace {

/// A stage of moe_block_up: kBlockStageUnits units of a tile of gate rows and of the same rows of up, and their scales behind
/// them.
template <class Weights>
struct UpStage {
  static constexpr uint32_t kRows = 2 * kExpertTileRows;
  static constexpr uint32_t kRowBytes = kBlockStageUnits * kUnitBytes;
  static constexpr uint32_t kRowScaleBytes = kBlockStageUnits * unit_scale_bytes<Weights>();
  static constexpr uint32_t kBytes = kRows * (kRowBytes + kRowScaleBytes);

  __device__ static __forceinline__ uint32_t codes(uint32_t stage, uint32_t row) { return stage + row * kRowBytes; }
  __device__ static __forceinline__ uint32_t scales(uint32_t stage, uint32_t row) {
    return stage + kRows * kRowBytes + row * kRowScaleBytes;
  }
};

/// A place in a ring, and the parity of its phase.
struct BlockCursor {
  uint32_t slot = 0;
  uint32_t parity = 0;
  __device__ __forceinline__ void advance() {
    if (++slot < kBlockStages) return;
    slot = 0;
    parity ^= 1U;
  }
};

struct UpMemory {
  Picks picks;
  Barrier full[kBlockStages];
  Barrier empty[kBlockStages];
  ExpertSums<2, false> sums[2];  // part[slice][gate, up]; sets take turns, so that one synchronisation is enough

  __device__ __forceinline__ void init() {
    if (threadIdx.x != 0) return;
#pragma unroll
    for (uint32_t i = 0; i < kBlockStages; ++i) {
      full[i].init(kBlockLoaders * (kBulkCopies ? 1 : kLanes));
      empty[i].init(kExpertWarps * kWarpArrivals);
    }
    publish_barriers();
  }
};

/// Sets of columns of a work group of moe_block_up.
struct ColumnSets {
  uint32_t first;
  uint32_t end;

  __device__ __forceinline__ explicit ColumnSets(const MoeBlockUpParams& p)
      : first(blockIdx.x * p.num_sets), end(gpu::smaller(first + p.num_sets, p.tile.out_features / kExpertTileRows)) {}
};

/// A loading warp of moe_block_up: every kBlockLoaders-th row of each stage.
template <class Weights>
__device__ __forceinline__ void load_up(const MoeBlockUpParams& p, uint32_t expert, uint32_t ring, UpMemory& memory) {
  using Stage = UpStage<Weights>;
  const uint32_t lane = threadIdx.x % kLanes;
  const uint32_t row = lane * kBlockLoaders + threadIdx.x / kLanes - kExpertWarps;
  const bool exists = row < Stage::kRows;
  const uint32_t steps = num_units<Weights>(p.tile.in_features) / kBlockStageUnits;
  const WeightParams w = expert_weight(p.tile.weight, expert);
  const uint64_t policy = evict_first_policy();
  const ColumnSets sets(p);
  BlockCursor cursor;
#pragma unroll 1
  for (uint32_t set = sets.first; set < sets.end; ++set) {
    const uint64_t n = set * kExpertTileRows + row % kExpertTileRows + row / kExpertTileRows * p.tile.out_features;
    const uint64_t codes = w.codes + n * steps * Stage::kRowBytes;
    const uint64_t scales = w.scale + n * steps * Stage::kRowScaleBytes;
#pragma unroll 1
    for (uint32_t step = 0; step < steps; ++step) {
      memory.empty[cursor.slot].wait(cursor.parity ^ 1U);
      Barrier& full = memory.full[cursor.slot];
      if (kBulkCopies && lane == 0) full.arrive_expecting(Stage::kBytes / kBlockLoaders);
      __syncwarp();
      const uint32_t stage = ring + cursor.slot * Stage::kBytes;
      copy_segments(Stage::codes(stage, row), codes + step * Stage::kRowBytes, Stage::kRowBytes, exists, full, policy);
      if constexpr (Stage::kRowScaleBytes > 0) {
        copy_segments(Stage::scales(stage, row), scales + step * Stage::kRowScaleBytes, Stage::kRowScaleBytes, exists, full,
                      policy);
      }
      if constexpr (!kBulkCopies) full.arrive_after_copies();
      cursor.advance();
    }
  }
}

/// Gate and up of some columns of one expert for its `pairs`, from the rows at `x`. Warps that share a slice take gate and up.
template <class Weights>
__device__ __forceinline__ void multiply_up(const MoeBlockUpParams& p, uint32_t expert, uint32_t pairs, uint32_t x, uint32_t ring,
                                            UpMemory& memory) {
  using Stage = UpStage<Weights>;
  const MoeTileParams& tile = p.tile;
  const uint32_t lane = threadIdx.x % kLanes;
  const uint32_t group = threadIdx.x / kLanes >> tile.slice_bits;
  const uint32_t groups = kExpertWarps >> tile.slice_bits;
  const uint32_t slices = 1U << tile.slice_bits;
  const uint32_t slice = threadIdx.x / kLanes & (slices - 1);
  const uint32_t steps = num_units<Weights>(tile.in_features) / kBlockStageUnits;
  const uint32_t count = static_cast<uint32_t>(__popc(pairs));
  const uint32_t row = row_of_pair(x, pairs, count, tile.pairs_per_row, tile.x_row_bytes);
  const WeightParams w = expert_weight(tile.weight, expert);
  const uint32_t result = threadIdx.x / kExpertTileRows;  // pair of the expert
  const ColumnSets sets(p);
  BlockCursor cursor;
#pragma unroll 1
  for (uint32_t set = sets.first; set < sets.end; ++set) {
    const uint32_t column = set * kExpertTileRows + threadIdx.x % kExpertTileRows;
    float gate_scale = Weights::kSumFactor;
    float up_scale = Weights::kSumFactor;
    if (result < count) {
      gate_scale *= Weights::Format::outer_scale(w, w.scale, w.global_scale, column);
      up_scale *= Weights::Format::outer_scale(w, w.scale, w.global_scale, column + tile.out_features);
    }
    float sums[2][4] = {};
#pragma unroll 1
    for (uint32_t step = 0; step < steps; ++step) {
      memory.full[cursor.slot].wait(cursor.parity);
      const uint32_t stage = ring + cursor.slot * Stage::kBytes;
#pragma unroll 2
      for (uint32_t unit = slice; unit < kBlockStageUnits; unit += slices) {
        const auto values = shared_unit<Weights, false>(row, row, step * kBlockStageUnits + unit);
#pragma unroll
        for (uint32_t i = 0; i < 2; ++i) {
          if (groups > 1 && i != group) continue;
          const uint32_t at = i * kExpertTileRows + lane / 4;
          add_unit(staged_unit<Weights>(Stage::codes(stage, at) + unit * kUnitBytes,
                                        Stage::scales(stage, at) + unit * unit_scale_bytes<Weights>()),
                   values, sums[i]);
        }
      }
      memory.empty[cursor.slot].arrive_as_warp();
      cursor.advance();
    }
    ExpertSums<2, false>& group_sums = memory.sums[set % 2];
#pragma unroll
    for (uint32_t i = 0; i < 2; ++i) {
      if (groups > 1 && i != group) continue;
#pragma unroll
      for (uint32_t value = 0; value < 2; ++value) group_sums.part[slice][i][value][lane] = sums[i][value];
    }
    synchronize_multipliers();
    if (result >= count) continue;
    const uint32_t in_tile = threadIdx.x % kExpertTileRows;
    const float gate = group_sums.value(0, 0, result, in_tile, tile.slice_bits) * gate_scale;
    const float up = group_sums.value(0, 1, result, in_tile, tile.slice_bits) * up_scale;
    gpu::store_float(tile.out, uint64_t{set_bit(pairs, result)} * tile.out_features + column, gpu::silu(gate) * up,
                     tile.out_is_bf16 != 0);
  }
}

/// A work group has sets of columns of the expert of pair blockIdx.y, where that is the expert's first.
template <class Weights>
__global__ void __launch_bounds__(kBlockUpThreads, 2) moe_block_up(const __grid_constant__ MoeBlockUpParams p) {
  extern __shared__ __align__(128) uint8_t block_memory[];
  __shared__ UpMemory memory;
  const uint32_t ring = shared_address(block_memory);
  const uint32_t x = ring + kBlockStages * UpStage<Weights>::kBytes;
  const bool loads = threadIdx.x >= kExpertThreads;
  memory.init();
  gpu::wait_for_previous();
  gpu::allow_next();  // not before: what the launch behind reads without waiting is there
  if (!loads) {
#pragma unroll 1
    for (uint32_t row = 0; row < p.route.num_rows; ++row) {
      copy_x_row<Weights>(x + row * p.tile.x_row_bytes, p.tile.x + row * p.tile.x_stride * 2, p.tile.in_features, threadIdx.x,
                          kExpertThreads);
    }
    end_copy_group();
  }
  pick_experts<kBlockLaneExperts>(p.route, memory.picks);
  const uint32_t pairs = PairSets(memory.picks, p.tile.num_pairs).of_pair(blockIdx.y);
  if (!loads) wait_for_copy_groups<0>();
  if ((pairs & ((1U << blockIdx.y) - 1)) != 0) return;
  const uint32_t expert = memory.picks.id[blockIdx.y];
  if (loads) {
    load_up<Weights>(p, expert, ring, memory);
  } else {
    synchronize_multipliers();
    multiply_up<Weights>(p, expert, pairs, x, ring, memory);
  }
}

}  // namespace
}  // namespace foretoken::cuda
