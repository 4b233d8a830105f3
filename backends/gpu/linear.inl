// linear, linear_silu_mul and linear_argmax (core/ops/linear.h).
#pragma once

#include "backends/gpu/linear_sums.inl"
#include "backends/gpu/row_best.inl"

namespace foretoken::gpu {
namespace {

/// The activation rows of a tile; past the last one it is repeated, and its results are not stored.
template <int kRows>
FORETOKEN_DEVICE ActivationRows<kRows> activation_rows(uint64_t x, uint64_t stride, uint32_t first, uint32_t num_rows,
                                                       bool is_bf16) {
  ActivationRows<kRows> rows;
  rows.base = x;
  rows.is_bf16 = is_bf16;
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    rows.offset[r] = static_cast<uint32_t>(smaller(first + static_cast<uint32_t>(r), num_rows - 1) * stride);
  }
  return rows;
}

/// Rows n .. n + kColumns - 1 of one weight; past the last one it is repeated.
template <class Format, uint32_t kColumns>
FORETOKEN_DEVICE WeightRows<kColumns> weight_rows(const WeightParams& w, uint32_t n, uint32_t out_features,
                                                  uint32_t in_features) {
  WeightRows<kColumns> rows;
#pragma unroll
  for (uint32_t c = 0; c < kColumns; ++c) {
    rows.index[c] = smaller(n + c, out_features - 1);
    rows.codes[c] = w.codes + Format::bytes(uint64_t{rows.index[c]} * in_features);
  }
  rows.first_scale = rows.second_scale = w.scale;
  return rows;
}

template <class Format, int kRows, bool kAligned, uint32_t kColumns = kWarpColumns>
__global__ void __launch_bounds__(kLinearThreads, launch_bound(kResidentWarps<kColumns * kRows>, kLinearThreads))
    linear(const LinearParams p) {
  allow_next();
  __shared__ TileSums<kColumns, kRows> tile;
  const uint32_t warp = threadIdx.x / kLanes;
  const uint32_t groups = kLinearWarps / p.num_slices;
  const uint32_t first_row = blockIdx.y * kRows;
  const uint32_t first_column = blockIdx.x * groups * kColumns;
  const auto x = activation_rows<kRows>(p.x, p.x_stride, first_row, p.num_rows, p.x_is_bf16 != 0);
  const auto rows =
      weight_rows<Format, kColumns>(p.weight, first_column + warp / p.num_slices * kColumns, p.out_features, p.in_features);
  const uint32_t slice = warp % p.num_slices;
  const auto codes = first_tile<Format, kColumns, kAligned>(p.weight, rows, slice, p.in_features);
  wait_for_previous();
  float sums[kColumns * kRows] = {};
  add_slice<Format, kColumns, kAligned>(p.weight, rows, x, codes, p.in_features, slice, p.num_slices, sums);
  tile.store(sums);

  constexpr uint32_t kValues = kColumns * kRows;
  if (threadIdx.x >= groups * kValues) return;
  const uint32_t group = threadIdx.x / kValues;
  const uint32_t value = threadIdx.x % kValues;
  const uint32_t column = first_column + group * kColumns + value / kRows;
  const uint32_t row = first_row + value % kRows;
  if (column >= p.out_features || row >= p.num_rows) return;
  const float sum = tile.value(group, value, p.num_slices);
  const float scale = Format::outer_scale(p.weight, p.weight.scale, p.weight.global_scale, column);
  store_float(p.out, row * p.out_stride + column, sum * scale, p.out_is_bf16 != 0);
}

/// A tile is half as many columns: rows of gate, then the same ones of up.
template <class Format, int kRows, bool kAligned, uint32_t kTileRows = kWarpColumns>
__global__ void __launch_bounds__(kLinearThreads, launch_bound(kResidentWarps<kTileRows * kRows>, kLinearThreads))
    linear_silu_mul(const LinearParams p) {
  allow_next();
  __shared__ TileSums<kTileRows, kRows> tile;
  constexpr uint32_t kColumns = kTileRows / 2;
  const uint32_t warp = threadIdx.x / kLanes;
  const uint32_t groups = kLinearWarps / p.num_slices;
  const uint32_t first_row = blockIdx.y * kRows;
  const uint32_t first_column = blockIdx.x * groups * kColumns;
  const auto x = activation_rows<kRows>(p.x, p.x_stride, first_row, p.num_rows, p.x_is_bf16 != 0);
  WeightRows<kTileRows> rows;
#pragma unroll
  for (uint32_t c = 0; c < kTileRows; ++c) {
    const uint32_t n = first_column + warp / p.num_slices * kColumns + c % kColumns;
    rows.index[c] = smaller(n, p.out_features - 1);
    rows.codes[c] = (c < kColumns ? p.weight.codes : p.second.codes) + Format::bytes(uint64_t{rows.index[c]} * p.in_features);
  }
  rows.first_scale = p.weight.scale;
  rows.second_scale = p.second.scale;
  const uint32_t slice = warp % p.num_slices;
  const auto codes = first_tile<Format, kColumns, kAligned>(p.weight, rows, slice, p.in_features);
  wait_for_previous();
  float sums[kTileRows * kRows] = {};
  add_slice<Format, kColumns, kAligned>(p.weight, rows, x, codes, p.in_features, slice, p.num_slices, sums);
  tile.store(sums);

  constexpr uint32_t kValues = kColumns * kRows;
  if (threadIdx.x >= groups * kValues) return;
  const uint32_t group = threadIdx.x / kValues;
  const uint32_t value = threadIdx.x % kValues;
  const uint32_t column = first_column + group * kColumns + value / kRows;
  const uint32_t row = first_row + value % kRows;
  if (column >= p.out_features || row >= p.num_rows) return;
  const float gate =
      tile.value(group, value, p.num_slices) * Format::outer_scale(p.weight, p.weight.scale, p.weight.global_scale, column);
  const float up = tile.value(group, value + kValues, p.num_slices) *
                   Format::outer_scale(p.weight, p.second.scale, p.second.global_scale, column);
  store_float(p.out, row * p.out_stride + column, silu(gate) * up, p.out_is_bf16 != 0);
}

/// Work group (part, row tile): the columns of `tiles_per_part` tiles; warp r keeps row r.
template <class Format, int kRows, bool kAligned>
__global__ void __launch_bounds__(kArgmaxThreads, launch_bound(kResidentWarps<kWarpColumns * kRows>, kArgmaxThreads))
    linear_argmax(const LinearArgmaxParams p) {
  static_assert(kRows <= int{kArgmaxWarps});
  allow_next();
  __shared__ TileSums<kWarpColumns, kRows, kArgmaxWarps> tile;
  const uint32_t warp = threadIdx.x / kLanes;
  const uint32_t lane = threadIdx.x % kLanes;
  const uint32_t groups = kArgmaxWarps / p.num_slices;
  const uint32_t first_row = blockIdx.y * kRows;
  const uint32_t columns = groups * kWarpColumns;
  const auto x = activation_rows<kRows>(p.x, p.x_stride, first_row, p.num_rows, p.x_is_bf16 != 0);
  const uint32_t slice = warp % p.num_slices;
  const uint32_t warp_column = warp / p.num_slices * kWarpColumns;
  const uint32_t part_column = blockIdx.x * p.tiles_per_part * columns;
  auto rows = weight_rows<Format, kWarpColumns>(p.weight, part_column + warp_column, p.out_features, p.in_features);
  auto codes = first_tile<Format, kWarpColumns, kAligned>(p.weight, rows, slice, p.in_features);
  wait_for_previous();
  RowBest row = RowBest::nothing();
  for (uint32_t t = 0; t < p.tiles_per_part; ++t) {
    const uint32_t first_column = part_column + t * columns;
    if (first_column >= p.out_features) break;
    float sums[kWarpColumns * kRows] = {};
    add_slice<Format, kWarpColumns, kAligned>(p.weight, rows, x, codes, p.in_features, slice, p.num_slices, sums);
    // The next tile is on its way while this one is summed up; past the last one the last row is loaded again.
    rows = weight_rows<Format, kWarpColumns>(p.weight, first_column + columns + warp_column, p.out_features, p.in_features);
    codes = first_tile<Format, kWarpColumns, kAligned>(p.weight, rows, slice, p.in_features);
    tile.store(sums);
    if (warp >= kRows) continue;
    const uint32_t column = first_column + lane;
    const bool exists = lane < columns && column < p.out_features;
    float logit = -INFINITY;
    Candidate candidate{0.0F, -1};
    if (exists) {
      logit = tile.value(lane / kWarpColumns, lane % kWarpColumns * kRows + warp, p.num_slices) *
              Format::outer_scale(p.weight, p.weight.scale, p.weight.global_scale, column);
      candidate = candidate_of(logit, static_cast<int32_t>(column));
    }
    row.best = better(row.best, lane_best(candidate));
    const float maximum = lane_max(logit);
    row.add(maximum, lane_sum(exists ? expf(logit - maximum) : 0.0F));
  }
  if (warp >= kRows || lane != 0 || first_row + warp >= p.num_rows) return;
  const uint64_t part = uint64_t{first_row + warp} * p.num_parts + blockIdx.x;
  pointer<float>(p.part_max)[part] = row.best.index < 0 ? row.maximum : row.best.value;
  pointer<int32_t>(p.part_id)[part] = row.best.index;
  pointer<float>(p.part_sum)[part] = row.sum;
}

}  // namespace
}  // namespace foretoken::gpu
