// moe_block_down: the shared expert's output, the second projection of the experts that a few rows pick, and their join.
#pragma once

#include "backends/cuda/kernels/moe_block.cuh"
#include "backends/cuda/kernels/moe_block_up.cuh"

namespace foretoken::cuda {
namespace {

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
