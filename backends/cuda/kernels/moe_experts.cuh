// moe_experts_up and moe_experts_down on tensor cores. The bits of a (pair, column) depend on its weight row, its row of x and
// the weight's shape alone: not on the rows that are computed together, nor on which of the kernels does it.
#pragma once

#include "backends/cuda/kernels/moe_route.cuh"
#include "backends/cuda/kernels/weight_fragments.cuh"
#include "backends/gpu/kernel_entry.h"

namespace foretoken::cuda {
namespace {

/// Bytes of x that go with one unit.
template <class Weights>
__host__ __device__ constexpr uint32_t unit_x_bytes() {
  return unit_elements<Weights>() * 2;
}

/// The stack's matrix `expert`.
__device__ __forceinline__ WeightParams expert_weight(const WeightParams& stack, uint32_t expert) {
  WeightParams w = stack;
  w.codes += expert * stack.codes_stride;
  w.scale += expert * stack.scale_stride;
  w.global_scale += expert * stack.global_scale_stride;
  return w;
}

/// The pairs of one expert: expert_pairs[first .. first + count).
struct ActiveExpert {
  uint32_t expert;
  uint32_t first;
  uint32_t count;
};

/// Counts the experts that have pairs; all threads of the work group call it, `experts` at a time. Calls found(i, active) in the
/// thread that has the i-th of them. Ends with a synchronisation.
template <class Found>
__device__ __forceinline__ uint32_t for_each_active_expert(uint64_t expert_offsets, uint32_t num_experts, Found found) {
  __shared__ uint32_t warp_counts[kExpertWarps];
  const auto* offsets = pointer<const int32_t>(expert_offsets);
  const uint32_t warp = threadIdx.x / kLanes;
  uint32_t num_active = 0;
#pragma unroll 1
  for (uint32_t base = 0; base < num_experts; base += kExpertThreads) {
    const uint32_t expert = base + threadIdx.x;
    const bool exists = expert < num_experts;
    const int32_t begin = exists ? offsets[expert] : 0;
    const int32_t end = exists ? offsets[expert + 1] : 0;
    const uint32_t lanes = gpu::lane_ballot(begin != end);
    if (base > 0) __syncthreads();  // the counts of the round before have been read
    if (threadIdx.x % kLanes == 0) warp_counts[warp] = static_cast<uint32_t>(__popc(lanes));
    __syncthreads();
    uint32_t before = num_active;
#pragma unroll
    for (uint32_t other = 0; other < kExpertWarps; ++other) {
      if (other < warp) before += warp_counts[other];
      num_active += warp_counts[other];
    }
    before += static_cast<uint32_t>(__popc(lanes & ((1U << threadIdx.x % kLanes) - 1)));
    if (begin != end) found(before, ActiveExpert{expert, static_cast<uint32_t>(begin), static_cast<uint32_t>(end - begin)});
  }
  __syncthreads();
  return num_active;
}

/// Ends a group of copies, which may be empty.
__device__ __forceinline__ void end_copy_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// Waits until no more than the `kPending` last groups of this thread are under way.
template <uint32_t kPending>
__device__ __forceinline__ void wait_for_copy_groups() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

/// Copies one row of x into shared memory in the order in which lanes take it, zeros behind it up to whole units. Thread
/// `thread` of `num_threads` copies its share; the copies are asynchronous.
template <class Weights>
__device__ __forceinline__ void copy_x_row(uint32_t shared_row, uint64_t row, uint32_t in_features, uint32_t thread,
                                           uint32_t num_threads) {
  constexpr uint32_t kHalfChunks = 4 * Weights::kParts;  // of 16 bytes in a half
  const uint32_t chunks = num_units<Weights>(in_features) * 2 * kHalfChunks;
#pragma unroll 1
  for (uint32_t chunk = thread; chunk < chunks; chunk += num_threads) {
    const uint32_t in_half = chunk % kHalfChunks;
    const uint32_t place = chunk - in_half + in_half % Weights::kParts * 4 + in_half / Weights::kParts;
    if (chunk * 8 < in_features) {
      copy_16(shared_row + place * 16, row + chunk * 16);
    } else {
      asm volatile("st.shared.v4.u32 [%0], {%1, %1, %1, %1};" ::"r"(shared_row + place * 16), "r"(0) : "memory");
    }
  }
}

__device__ __forceinline__ uint4 load_shared(uint32_t address) {
  uint4 four;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(four.x), "=r"(four.y), "=r"(four.z), "=r"(four.w)
               : "r"(address));
  return four;
}

/// `low` and `high`: this lane's rows in shared memory, at its first element of unit 0.
template <class Weights, bool kSixteenRows>
__device__ __forceinline__ ActivationUnit<Weights> shared_unit(uint32_t low, uint32_t high, uint32_t unit) {
  ActivationUnit<Weights> x;
#pragma unroll
  for (uint32_t half = 0; half < 2; ++half) {
#pragma unroll
    for (uint32_t part = 0; part < Weights::kParts; ++part) {
      const uint32_t at = unit * unit_x_bytes<Weights>() + (half * Weights::kParts + part) * 64;
      x.low[half][part] = ActivationUnit<Weights>::ordered(load_shared(low + at));
      x.high[half][part] = kSixteenRows ? ActivationUnit<Weights>::ordered(load_shared(high + at)) : make_uint4(0, 0, 0, 0);
    }
  }
  return x;
}

/// Units of a warp that are under way together.
template <class Weights>
__host__ __device__ constexpr uint32_t tile_depth() {
  return Weights::kParts == 4 ? 2 : 4;
}

/// Sums of the warps: part[warp][tile][value][lane].
template <uint32_t kTiles, bool kSixteenRows>
struct ExpertSums {
  static constexpr uint32_t kValues = kSixteenRows ? 4 : 2;
  float part[kExpertWarps][kTiles][kValues][kLanes];

  __device__ __forceinline__ void store(const float (&sums)[kTiles][4]) {
#pragma unroll
    for (uint32_t tile = 0; tile < kTiles; ++tile) {
#pragma unroll
      for (uint32_t i = 0; i < kValues; ++i) part[threadIdx.x / kLanes][tile][i][threadIdx.x % kLanes] = sums[tile][i];
    }
  }
  [[nodiscard]] __device__ __forceinline__ float value(uint32_t group, uint32_t tile, uint32_t row, uint32_t column,
                                                       uint32_t slice_bits) const {
    const float* first = &part[group << slice_bits][tile][row / 8 * 2 + column % 2][row % 8 * 4 + column / 2];
    float sum = *first;
#pragma unroll
    for (uint32_t slice = 1; slice < kExpertWarps; ++slice) {
      if (slice >> slice_bits == 0) sum += first[slice * kTiles * kValues * kLanes];
    }
    return sum;
  }
};

/// The expert of a work group, as moe_route lists it: the blockIdx.y-th of those that have pairs.
class ListedExpert {
 public:
  /// Whether there is one; all threads of the work group call it.
  __device__ __forceinline__ bool find(const MoeTileParams& p) {
    __shared__ ActiveExpert chosen;
    pairs_ = pointer<const int32_t>(p.expert_pairs);
    // Every expert before the slot has a pair: those of this one are most likely among the next.
    guess_ = pairs_[gpu::smaller(blockIdx.y + threadIdx.x % kLanes, p.num_pairs - 1)];
    const uint32_t num_active =
        for_each_active_expert(p.expert_offsets, p.num_experts, [](uint32_t i, const ActiveExpert& active) {
          if (i == blockIdx.y) chosen = active;
        });
    if (blockIdx.y >= num_active) return false;
    at_ = chosen;
    return true;
  }
  [[nodiscard]] __device__ __forceinline__ const ActiveExpert& at() const { return at_; }
  /// Its pair `i`; all lanes of a warp ask for the same.
  [[nodiscard]] __device__ __forceinline__ uint32_t pair_for_warp(uint32_t i) const {
    const uint32_t from = at_.first - blockIdx.y + i;
    const int32_t pair = __shfl_sync(kAllLanes, guess_, static_cast<int>(from % kLanes));
    return static_cast<uint32_t>(from < kLanes ? pair : pairs_[at_.first + i]);
  }
  [[nodiscard]] __device__ __forceinline__ uint32_t pair(uint32_t i) const {
    return static_cast<uint32_t>(pairs_[at_.first + i]);
  }

 private:
  const int32_t* pairs_;
  int32_t guess_;
  ActiveExpert at_;
};

/// Columns of one expert, for all of its pairs, kRows of them at a time. kGated: a tile of gate rows and the same of up rows.
template <class Weights, bool kGated, bool kSixteenRows>
__device__ __forceinline__ void multiply_tile(const MoeTileParams& p, ListedExpert& expert) {
  constexpr uint32_t kTiles = kGated ? 2 : 1;
  constexpr uint32_t kRows = kSixteenRows ? 16 : 8;
  constexpr uint32_t kDepth = tile_depth<Weights>();
  extern __shared__ uint4 x_rows[];
  __shared__ ExpertSums<kTiles, kSixteenRows> group_sums;
  __shared__ float scales[kExpertThreads / 2];
  if (!expert.find(p)) return;
  const ActiveExpert at = expert.at();
  const uint32_t lane = threadIdx.x % kLanes;
  const uint32_t warp = threadIdx.x / kLanes;
  const WeightParams w = expert_weight(p.weight, at.expert);
  const uint32_t slices = 1U << p.slice_bits;
  const uint32_t groups = kExpertWarps >> p.slice_bits;
  const uint32_t slice = warp & (slices - 1);
  const uint32_t group_column = blockIdx.x * groups * kExpertTileRows;
  const uint32_t tile_column = group_column + (warp >> p.slice_bits) * kExpertTileRows;
  const uint32_t units = num_units<Weights>(p.in_features);
  WeightRow<Weights> row[kTiles];
#pragma unroll
  for (uint32_t tile = 0; tile < kTiles; ++tile) {
    const auto row_of = [&](uint32_t column) {
      return gpu::smaller(tile_column + column, p.out_features - 1) + tile * p.out_features;
    };
    row[tile] = WeightRow<Weights>(w, {row_of(lane / 4), row_of(lane % 4 * 2)}, p.in_features);
  }
  const uint64_t policy = evict_first_policy();
  WeightUnit<Weights> ring[kDepth][kTiles];
  const auto load = [&](uint32_t i, uint32_t unit) {
#pragma unroll
    for (uint32_t tile = 0; tile < kTiles; ++tile) ring[i][tile].load(p.weight, row[tile], unit, unit < units, policy);
  };
  float scale = Weights::kSumFactor;
  if (threadIdx.x < groups * kExpertTileRows * kTiles) {
    const uint32_t column = group_column + threadIdx.x / kTiles;
    const uint32_t n = gpu::smaller(column, p.out_features - 1) + threadIdx.x % kTiles * p.out_features;
    scale *= Weights::Format::outer_scale(w, w.scale, w.global_scale, n);
  }

  const uint32_t shared = shared_address(x_rows);
  for (uint32_t first = 0; first < at.count; first += kRows) {
#pragma unroll
    for (uint32_t i = 0; i < kDepth; ++i) load(i, slice + i * slices);
    const uint32_t num_rows = gpu::smaller(kRows, at.count - first);
#pragma unroll 1
    for (uint32_t r = 0; r < num_rows; ++r) {
      const uint64_t x = p.x + expert.pair_for_warp(first + r) / p.pairs_per_row * p.x_stride * 2;
      copy_x_row<Weights>(shared + r * p.x_row_bytes, x, p.in_features, threadIdx.x, kExpertThreads);
    }
    if (first == 0 && threadIdx.x < kExpertThreads / 2) scales[threadIdx.x] = scale;
    end_copy_group();
    wait_for_copy_groups<0>();
    __syncthreads();

    const uint32_t low = shared + gpu::smaller(lane / 4, num_rows - 1) * p.x_row_bytes + lane % 4 * 16;
    const uint32_t high = shared + gpu::smaller(lane / 4 + 8, num_rows - 1) * p.x_row_bytes + lane % 4 * 16;
    float sums[kTiles][4] = {};
    const uint32_t round = kDepth * slices;
#pragma unroll 1
    for (uint32_t base = slice; base < units; base += round) {
#pragma unroll
      for (uint32_t i = 0; i < kDepth; ++i) {
        const uint32_t unit = base + i * slices;
        if (unit < units) {
          const auto x = shared_unit<Weights, kSixteenRows>(low, high, unit);
#pragma unroll
          for (uint32_t tile = 0; tile < kTiles; ++tile) add_unit(ring[i][tile], x, sums[tile]);
        }
        load(i, unit + round);
      }
    }
    group_sums.store(sums);
    __syncthreads();
#pragma unroll 1
    for (uint32_t v = threadIdx.x; v < groups * kExpertTileRows * num_rows; v += kExpertThreads) {
      const uint32_t in_group = v & (groups * kExpertTileRows - 1);
      const uint32_t r = v / kExpertTileRows >> (3 - p.slice_bits);
      const uint32_t column = group_column + in_group;
      const uint32_t group = in_group / kExpertTileRows;
      const uint32_t in_tile = in_group % kExpertTileRows;
      if (column >= p.out_features) continue;
      float value = group_sums.value(group, 0, r, in_tile, p.slice_bits) * scales[in_group * kTiles];
      if constexpr (kGated) {
        value = gpu::silu(value) * (group_sums.value(group, 1, r, in_tile, p.slice_bits) * scales[in_group * kTiles + 1]);
      }
      gpu::store_float(p.out, uint64_t{expert.pair(first + r)} * p.out_features + column, value, p.out_is_bf16 != 0);
    }
  }
}

template <class Weights, bool kGated, bool kSixteenRows>
__global__ void __launch_bounds__(kExpertThreads, kSixteenRows ? 1 : 2) moe_tile(const __grid_constant__ MoeTileParams p) {
  gpu::begin_kernel();
  ListedExpert expert;
  multiply_tile<Weights, kGated, kSixteenRows>(p, expert);
}

}  // namespace
}  // namespace foretoken::cuda
