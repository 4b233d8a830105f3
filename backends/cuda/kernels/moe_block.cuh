// The experts of a MoeBlock of few rows in two launches, each of which routes the rows itself, so that moe_block_down can ask for
// its weights while moe_block_up runs. They come by bulk copies into shared memory. Bits are those of the operators
// (kernels/moe_experts.cuh, moe_down.cuh, small.cuh).
#pragma once

#include "backends/cuda/kernels/moe_experts.cuh"
#include "backends/cuda/kernels/moe_route.cuh"

namespace foretoken::cuda {
namespace {

constexpr uint32_t kBlockLaneExperts = kRouteTileExperts / kLanes;

/// Synchronises the warps that multiply.
__device__ __forceinline__ void synchronize_multipliers() { asm volatile("bar.sync 1, %0;" ::"n"(kExpertThreads) : "memory"); }

/// Bytes of scales that go with one unit of a row of codes.
template <class Weights>
__host__ __device__ constexpr uint32_t unit_scale_bytes() {
  return Weights::kParts == 4 ? 16 : 0;
}

/// Bit i of `mask` that is set, counted from the lowest.
__device__ __forceinline__ uint32_t set_bit(uint32_t mask, uint32_t i) {
#pragma unroll 1
  for (; i > 0; --i) mask &= mask - 1;
  return static_cast<uint32_t>(__ffs(static_cast<int>(mask)) - 1);
}

/// Who picked what, as bits of pairs: at most kBlockPairs.
struct PairSets {
  uint32_t same;     // pairs of the expert of the lane's pair
  uint32_t leaders;  // pairs that are the first of their expert

  /// All lanes of a warp call it, after pick_experts.
  __device__ __forceinline__ PairSets(const Picks& picks, uint32_t num_pairs) : same(0) {
    const uint32_t lane = threadIdx.x % kLanes;
    const uint32_t id = picks.id[gpu::smaller(lane, num_pairs - 1)];
#pragma unroll 4
    for (uint32_t i = 0; i < num_pairs; ++i) same |= (picks.id[i] == id ? 1U : 0U) << i;
    leaders = gpu::lane_ballot(lane < num_pairs && (same & ((1U << lane) - 1)) == 0);
  }
  /// Those of the expert of pair `pair`; all lanes ask for the same.
  [[nodiscard]] __device__ __forceinline__ uint32_t of_pair(uint32_t pair) const {
    return __shfl_sync(kAllLanes, same, static_cast<int>(pair));
  }
};

/// The lane's share of a unit of a weight row in shared memory. `codes`, `scales`: of the row's unit. Rows lie at multiples of a
/// line of banks, so lanes of odd rows read their second half first.
template <class Weights>
__device__ __forceinline__ WeightUnit<Weights> staged_unit(uint32_t codes, uint32_t scales) {
  const uint32_t lane = threadIdx.x % kLanes;
  const bool odd = lane / 4 % 2 != 0;
  const uint32_t at = codes + lane % 4 * 16;
  const uint4 first = load_shared(at + (odd ? kHalfBytes : 0));
  const uint4 second = load_shared(at + (odd ? 0 : kHalfBytes));
  WeightUnit<Weights> unit;
  unit.codes[0] = odd ? second : first;
  unit.codes[1] = odd ? first : second;
  if constexpr (unit_scale_bytes<Weights>() > 0) {
#pragma unroll
    for (uint32_t half = 0; half < 2; ++half) {
      uint16_t pair;
      asm volatile("ld.shared.u16 %0, [%1];" : "=h"(pair) : "r"(scales + half * 8 + lane % 4 * 2));
      unit.scales.pair[half] = pair;
    }
  }
  return unit;
}

/// The lane's row of x in shared memory among the `count` pairs of an expert, at its first element.
__device__ __forceinline__ uint32_t row_of_pair(uint32_t x, uint32_t pairs, uint32_t count, uint32_t pairs_per_row,
                                                uint32_t x_row_bytes) {
  const uint32_t lane = threadIdx.x % kLanes;
  const uint32_t pair = set_bit(pairs, gpu::smaller(lane / 4, count - 1));
  return x + pair / pairs_per_row * x_row_bytes + lane % 4 * 16;
}

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

/// Of moe_block_down. A slot has kBlockColumns weight rows, and their scales behind them; the shared expert's and those of the
/// picked experts come into the slots in turn.
struct BlockDownMemory {
  Picks picks;
  float weights[kBlockPairs];
  Barrier full[kBlockSlots];
  Barrier empty[kBlockSlots];
  ExpertSums<kBlockColumns / kExpertTileRows, false> shared_sums;
  float shared[kBlockRows][kBlockColumns];
  float products[kBlockPairs][kBlockColumns];

  __device__ __forceinline__ void init() {
    if (threadIdx.x != 0) return;
#pragma unroll
    for (uint32_t i = 0; i < kBlockSlots; ++i) {
      full[i].init(kBulkCopies ? 1 : kLanes);
      empty[i].init(kBlockColumns / kExpertTileRows * kWarpArrivals);
    }
    publish_barriers();
  }
};

static_assert(sizeof(BlockDownMemory) <= 9 << 10);

/// Copies the work group's rows of one matrix into a slot; all lanes of a warp call it.
template <class Weights>
__device__ __forceinline__ void load_slot(const WeightParams& w, uint32_t units, uint32_t slot, Barrier& full, uint64_t policy) {
  const uint32_t codes_bytes = kBlockColumns * units * kUnitBytes;
  const uint32_t scale_bytes = kBlockColumns * units * unit_scale_bytes<Weights>();
  const uint64_t first = uint64_t{blockIdx.x} * kBlockColumns;
  const bool copies = threadIdx.x % kLanes == 0;
  if (kBulkCopies && copies) full.arrive_expecting(codes_bytes + scale_bytes);
  __syncwarp();
  copy_segments(slot, w.codes + first * units * kUnitBytes, codes_bytes, copies, full, policy);
  if constexpr (unit_scale_bytes<Weights>() > 0) {
    copy_segments(slot + codes_bytes, w.scale + first * w.scale_columns, scale_bytes, copies, full, policy);
  }
  if constexpr (!kBulkCopies) full.arrive_after_copies();
}

/// sums += the products of units first, first + step, ... of tile `tile` of a slot with the lane's row of x.
template <class Weights>
__device__ __forceinline__ void multiply_slot(uint32_t slot, uint32_t tile, uint32_t units, uint32_t first, uint32_t step,
                                              uint32_t row, float (&sums)[4]) {
  const uint32_t weight_row = tile * kExpertTileRows + threadIdx.x % kLanes / 4;
  const uint32_t codes = slot + weight_row * units * kUnitBytes;
  const uint32_t scales = slot + kBlockColumns * units * kUnitBytes + weight_row * units * unit_scale_bytes<Weights>();
#pragma unroll 4
  for (uint32_t unit = first; unit < units; unit += step) {
    add_unit(staged_unit<Weights>(codes + unit * kUnitBytes, scales + unit * unit_scale_bytes<Weights>()),
             shared_unit<Weights, false>(row, row, unit), sums);
  }
}

/// The loading warp of moe_block_down, when the shared expert's columns are on their way: those of each picked expert.
template <class Weights>
__device__ __forceinline__ void load_down(const MoeBlockDownParams& p, uint32_t slots, uint32_t units, BlockDownMemory& memory) {
  const uint64_t policy = evict_first_policy();
  const PairSets sets(memory.picks, p.down.num_rows * p.down.top_k);
  uint32_t i = 1;
#pragma unroll 1
  for (uint32_t leaders = sets.leaders; leaders != 0; leaders &= leaders - 1, ++i) {
    const uint32_t place = i % kBlockSlots;
    memory.empty[place].wait(i / kBlockSlots % 2 ^ 1U);
    const uint32_t expert = memory.picks.id[__ffs(static_cast<int>(leaders)) - 1];
    load_slot<Weights>(expert_weight(p.down.weight, expert), units, slots + place * p.slot_bytes, memory.full[place], policy);
  }
}

/// The output of the shared expert in the work group's columns. `x`: its activations.
template <class Weights>
__device__ __forceinline__ void multiply_shared(const MoeBlockDownParams& p, uint32_t slot, uint32_t x, BlockDownMemory& memory) {
  constexpr uint32_t kTiles = kBlockColumns / kExpertTileRows;
  const uint32_t lane = threadIdx.x % kLanes;
  const uint32_t slices = 1U << p.shared_slice_bits;
  const uint32_t row = x + gpu::smaller(lane / 4, p.down.num_rows - 1) * p.shared_row_bytes + lane % 4 * 16;
  const uint32_t result = threadIdx.x / kBlockColumns;  // row of x
  const uint32_t in_group = threadIdx.x % kBlockColumns;
  const uint32_t column = blockIdx.x * kBlockColumns + in_group;
  float scale = Weights::kSumFactor;
  if (result < p.down.num_rows) {
    scale *= Weights::Format::outer_scale(p.shared_weight, p.shared_weight.scale, p.shared_weight.global_scale, column);
  }
  memory.full[0].wait(0);
#pragma unroll 1
  for (uint32_t task = threadIdx.x / kLanes; task < slices * kTiles; task += kExpertWarps) {
    const uint32_t slice = task & (slices - 1);
    const uint32_t tile = task >> p.shared_slice_bits;
    float sums[4] = {};
    multiply_slot<Weights>(slot, tile, num_units<Weights>(p.shared_features), slice, slices, row, sums);
#pragma unroll
    for (uint32_t i = 0; i < 2; ++i) memory.shared_sums.part[slice][tile][i][lane] = sums[i];
  }
  synchronize_multipliers();
  if (threadIdx.x / kLanes < kTiles) memory.empty[0].arrive_as_warp();
  if (result >= p.down.num_rows) return;
  const uint32_t tile = in_group / kExpertTileRows;
  const uint32_t in_tile = in_group % kExpertTileRows;
  const float value = memory.shared_sums.value(0, tile, result, in_tile, p.shared_slice_bits) * scale;
  const uint64_t at = result * p.down.shared_stride + column;
  gpu::store_float(p.down.shared, at, value, p.down.shared_is_bf16 != 0);
  memory.shared[result][in_group] = p.down.shared_is_bf16 != 0 ? gpu::bf16_to_float(gpu::float_to_bf16(value)) : value;
}

/// The products of all picked experts in the work group's columns. `x`: rows by pair.
template <class Weights>
__device__ __forceinline__ void multiply_down(const MoeBlockDownParams& p, uint32_t slots, uint32_t units, uint32_t x,
                                              BlockDownMemory& memory) {
  constexpr uint32_t kTiles = kBlockColumns / kExpertTileRows;
  const uint32_t lane = threadIdx.x % kLanes;
  // A barrier shows a warp only the phase after the last one that it waited for: the warps of a slot stay the same.
  static_assert(kBlockSlots * kTiles % kExpertWarps == 0);
  const PairSets sets(memory.picks, p.down.num_rows * p.down.top_k);
  const uint32_t num_active = static_cast<uint32_t>(__popc(sets.leaders));
#pragma unroll 1
  for (uint32_t task = threadIdx.x / kLanes; task < num_active * kTiles; task += kExpertWarps) {
    const uint32_t entry = 1 + task / kTiles;
    const uint32_t tile = task % kTiles;
    const uint32_t place = entry % kBlockSlots;
    const uint32_t leader = set_bit(sets.leaders, task / kTiles);
    const uint32_t pairs = sets.of_pair(leader);
    const uint32_t count = static_cast<uint32_t>(__popc(pairs));
    const WeightParams w = expert_weight(p.down.weight, memory.picks.id[leader]);
    const uint32_t column = tile * kExpertTileRows + lane % 4 * 2;
    const uint32_t n = blockIdx.x * kBlockColumns + column;
    const float2 scale = make_float2(Weights::Format::outer_scale(w, w.scale, w.global_scale, n),
                                     Weights::Format::outer_scale(w, w.scale, w.global_scale, n + 1));
    const uint32_t row = row_of_pair(x, pairs, count, 1, p.down.x_row_bytes);
    float sums[4] = {};
    memory.full[place].wait(entry / kBlockSlots % 2);
    multiply_slot<Weights>(slots + place * p.slot_bytes, tile, units, 0, 1, row, sums);
    if (lane / 4 < count) {
      const float factor = Weights::kSumFactor;
      float* product = &memory.products[set_bit(pairs, lane / 4)][column];
      product[0] = sums[0] * (scale.x * factor);
      product[1] = sums[1] * (scale.y * factor);
    }
    memory.empty[place].arrive_as_warp();
  }
}

/// kBlockColumns columns of the result. Group memory: the slots, and rows of activations: of the pairs, and of the shared expert.
template <class Weights, class SharedWeights>
__global__ void __launch_bounds__(kBlockDownThreads, 2) moe_block_down(const __grid_constant__ MoeBlockDownParams p) {
  extern __shared__ __align__(128) uint8_t block_memory[];
  __shared__ BlockDownMemory memory;
  const uint32_t units = num_units<Weights>(p.down.in_features);
  const uint32_t shared_units = num_units<SharedWeights>(p.shared_features);
  const uint32_t num_pairs = p.down.num_rows * p.down.top_k;
  const uint32_t slots = shared_address(block_memory);
  const uint32_t x = slots + kBlockSlots * p.slot_bytes;
  const uint32_t shared_x = x + num_pairs * p.down.x_row_bytes;
  const bool loads = threadIdx.x >= kExpertThreads;
  memory.init();
  gpu::allow_next();
  __syncthreads();
  // Nothing here waits for moe_block_up, which began when the launch before it had ended: logits and the shared expert's
  // activations are there.
  if (loads) {
    load_slot<SharedWeights>(p.shared_weight, shared_units, slots, memory.full[0], evict_first_policy());
  } else {
#pragma unroll 1
    for (uint32_t row = 0; row < p.down.num_rows; ++row) {
      copy_x_row<SharedWeights>(shared_x + row * p.shared_row_bytes, p.shared_x + row * p.shared_x_stride * 2, p.shared_features,
                                threadIdx.x, kExpertThreads);
    }
    end_copy_group();
  }
  pick_experts<kBlockLaneExperts>(p.route, memory.picks);
  if (loads) {
    load_down<Weights>(p, slots, units, memory);
    gpu::wait_for_previous();
    return;
  }
  for_each_pick<kBlockLaneExperts>(p.route, memory.picks, [&](uint32_t pair, float weight) { memory.weights[pair] = weight; });
  if (blockIdx.x == 0) {
    write_plan(p.route, memory.picks);
    write_picks<kBlockLaneExperts>(p.route, memory.picks);
  }
  wait_for_copy_groups<0>();
  synchronize_multipliers();
  multiply_shared<SharedWeights>(p, slots, shared_x, memory);

  gpu::wait_for_previous();
  constexpr uint32_t kRowThreads = 64;
#pragma unroll 1
  for (uint32_t pair = threadIdx.x / kRowThreads; pair < num_pairs; pair += kExpertThreads / kRowThreads) {
    copy_x_row<Weights>(x + pair * p.down.x_row_bytes, p.down.x + uint64_t{pair} * p.down.in_features * 2, p.down.in_features,
                        threadIdx.x % kRowThreads, kRowThreads);
  }
  end_copy_group();
  const uint32_t row = threadIdx.x / kBlockColumns;
  const bool has_result = row < p.down.num_rows;
  const float gate = has_result ? pointer<const float>(p.down.shared_gate)[row * p.down.shared_gate_stride] : 0.0F;
  wait_for_copy_groups<0>();
  synchronize_multipliers();
  multiply_down<Weights>(p, slots, units, x, memory);
  synchronize_multipliers();
  if (!has_result) return;
  const uint32_t column = threadIdx.x % kBlockColumns;
  float sum = 0.0F;
#pragma unroll 4
  for (uint32_t pair = row * p.down.top_k; pair < (row + 1) * p.down.top_k; ++pair) {
    sum = fmaf(memory.weights[pair], memory.products[pair][column], sum);
  }
  sum = fmaf(gpu::sigmoid(gate), memory.shared[row][column], sum);
  gpu::store_float(p.down.out, row * p.down.out_stride + blockIdx.x * kBlockColumns + column, sum, p.down.out_is_bf16 != 0);
}

}  // namespace

/// The experts in the format that `format` names, the shared expert in BF16, as routers are.
template <class Weights>
void add_moe_block_kernels(gpu::KernelList& list, const std::string& format) {
  list.push_back(gpu::kernel_entry("moe_block_up_" + format, moe_block_up<Weights>, kBlockUpThreads));
  list.back().large_group_memory = true;
  list.push_back(gpu::kernel_entry("moe_block_down_" + format, moe_block_down<Weights, Bf16Weights>, kBlockDownThreads));
  list.back().large_group_memory = true;
  list.back().min_group_memory = kBlockGroupMemory;
}

}  // namespace foretoken::cuda
