// What the kernels of a MoeBlock of few rows share: the experts in two launches, each of which routes the rows itself, so that
// moe_block_down can ask for its weights while moe_block_up runs. They come by bulk copies into shared memory. Bits are those of
// the operators (kernels/moe_experts.cuh, moe_down.cuh, small.cuh).
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

}  // namespace
}  // namespace foretoken::cuda
