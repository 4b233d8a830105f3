// moe_experts_up and the products of moe_experts_down (core/ops/moe.h): a work group takes some columns of one expert, for all of
// its pairs.
#pragma once

#include "backends/gpu/linear_sums.inl"

namespace foretoken::gpu {
namespace {

/// The slot-th expert that has pairs, or num_experts when there are fewer. All lanes of a warp call it.
FORETOKEN_DEVICE uint32_t find_active_expert(const int32_t* offsets, uint32_t num_experts, uint32_t slot) {
  constexpr uint32_t kTogether = 8;  // warps' worth of offsets that are under way together
  uint32_t seen = 0;
  for (uint32_t base = 0; base < num_experts; base += kTogether * kLanes) {
    bool active[kTogether];
#pragma unroll
    for (uint32_t i = 0; i < kTogether; ++i) {
      const uint32_t expert = base + i * kLanes + threadIdx.x % kLanes;
      active[i] = expert < num_experts && offsets[expert] != offsets[expert + 1];
    }
#pragma unroll
    for (uint32_t i = 0; i < kTogether; ++i) {
      uint32_t lanes = lane_ballot(active[i]);
      const auto count = static_cast<uint32_t>(__popc(lanes));
      if (slot >= seen + count) {
        seen += count;
        continue;
      }
      for (; seen < slot; ++seen) lanes &= lanes - 1;
      return base + i * kLanes + static_cast<uint32_t>(__ffs(static_cast<int>(lanes))) - 1;
    }
  }
  return num_experts;
}

/// The stack's matrix `expert`.
FORETOKEN_DEVICE WeightParams expert_weight(const WeightParams& stack, uint32_t expert) {
  WeightParams w = stack;
  w.codes += expert * stack.codes_stride;
  w.scale += expert * stack.scale_stride;
  w.global_scale += expert * stack.global_scale_stride;
  return w;
}

/// Rows of x for pairs [first, first + kRows) of `count`; past the last one it is repeated.
template <int kRows>
FORETOKEN_DEVICE ActivationRows<kRows> pair_rows(const MoeExpertsParams& p, const int32_t* pairs, uint32_t first,
                                                 uint32_t count) {
  ActivationRows<kRows> rows;
  rows.base = p.x;
  rows.is_bf16 = p.x_is_bf16 != 0;
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const auto pair = static_cast<uint32_t>(pairs[smaller(first + static_cast<uint32_t>(r), count - 1)]);
    rows.offset[r] = static_cast<uint32_t>(pair / p.pairs_per_row * p.x_stride);
  }
  return rows;
}

/// Where a work group works: some columns of one expert.
struct ExpertPlace {
  WeightParams weight;
  WeightRows<kWarpColumns> rows;
  const int32_t* pairs;
  uint32_t count;         // pairs of the expert
  uint32_t first_column;  // of the work group
};

/// Pairs first .. first + kRows of the expert.
template <class Format, bool kGated, int kRows, bool kAligned>
FORETOKEN_DEVICE void expert_tile(const MoeExpertsParams& p, const ExpertPlace& at, uint32_t first,
                                  TileSums<kWarpColumns, kRows>& tile) {
  constexpr uint32_t kColumns = kGated ? kWarpColumns / 2 : kWarpColumns;
  constexpr uint32_t kValues = kColumns * kRows;
  const auto x = pair_rows<kRows>(p, at.pairs, first, at.count);
  const uint32_t slice = threadIdx.x / kLanes % p.num_slices;
  const auto codes = first_tile<Format, kWarpColumns, kAligned>(at.weight, at.rows, slice, p.in_features);
  float sums[kWarpColumns * kRows] = {};
  add_slice<Format, kWarpColumns, kAligned>(at.weight, at.rows, x, codes, p.in_features, slice, p.num_slices, sums);
  tile.store(sums);
  const uint32_t group = threadIdx.x / kValues;
  const uint32_t value = threadIdx.x % kValues;
  const uint32_t column = at.first_column + group * kColumns + value / kRows;
  const uint32_t row = first + value % kRows;
  if (group >= kLinearWarps / p.num_slices || column >= p.out_features || row >= at.count) return;
  const WeightParams& w = at.weight;
  float result = tile.value(group, value, p.num_slices) * Format::outer_scale(w, w.scale, w.global_scale, column);
  if constexpr (kGated) {
    const float up = tile.value(group, value + kValues, p.num_slices) *
                     Format::outer_scale(w, w.scale, w.global_scale, column + p.out_features);
    result = silu(result) * up;
  }
  store_float(p.out, static_cast<uint64_t>(at.pairs[row]) * p.out_features + column, result, p.out_is_bf16 != 0);
}

/// kGated: a tile is two columns, gate rows n and up rows out_features + n; otherwise four columns. A pair that is left alone is
/// computed alone.
template <class Format, bool kGated, int kRows, bool kAligned>
__global__ void __launch_bounds__(kLinearThreads, launch_bound(kResidentWarps<kWarpColumns * kRows>, kLinearThreads))
    moe_experts(const MoeExpertsParams p) {
  begin_kernel();
  __shared__ TileSums<kWarpColumns, kRows> tile;
  __shared__ TileSums<kWarpColumns, 1> single;
  constexpr uint32_t kColumns = kGated ? kWarpColumns / 2 : kWarpColumns;
  const auto* offsets = pointer<const int32_t>(p.expert_offsets);
  const uint32_t expert = find_active_expert(offsets, p.num_experts, blockIdx.y);
  if (expert == p.num_experts) return;
  ExpertPlace at;
  at.weight = expert_weight(p.weight, expert);
  at.pairs = pointer<const int32_t>(p.expert_pairs) + offsets[expert];
  at.count = static_cast<uint32_t>(offsets[expert + 1] - offsets[expert]);
  at.first_column = blockIdx.x * (kLinearWarps / p.num_slices) * kColumns;
#pragma unroll
  for (uint32_t c = 0; c < kWarpColumns; ++c) {
    const uint32_t column = at.first_column + threadIdx.x / kLanes / p.num_slices * kColumns + c % kColumns;
    at.rows.index[c] = smaller(column, p.out_features - 1) + c / kColumns * p.out_features;
    at.rows.codes[c] = at.weight.codes + Format::bytes(uint64_t{at.rows.index[c]} * p.in_features);
  }
  at.rows.first_scale = at.rows.second_scale = at.weight.scale;
  uint32_t first = 0;
  for (; first + 1 < at.count; first += kRows) expert_tile<Format, kGated, kRows, kAligned>(p, at, first, tile);
  if (first < at.count) expert_tile<Format, kGated, 1, kAligned>(p, at, first, single);
}

}  // namespace
}  // namespace foretoken::gpu
