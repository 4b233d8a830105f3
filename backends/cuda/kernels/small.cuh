// linear, linear_group and linear_silu_mul over small weights, where a launch is over before memory is busy: all
// of a work group's weights are asked for before it waits for the kernel before, and x goes straight into tensor-core operands.
#pragma once

#include "backends/cuda/kernels/small_params.h"
#include "backends/cuda/kernels/weight_fragments.cuh"
#include "backends/gpu/kernel_entry.h"

namespace foretoken::cuda {
namespace {

using gpu::kLanes;

/// The units that go with one batch of x: a warp's share of it fits into 32 registers.
template <class Weights>
__host__ __device__ constexpr uint32_t batch_units() {
  return kSmallBatch / unit_elements<Weights>();
}

/// A lane's rows of x, from its first element of unit 0 on. Past the last row it is repeated.
template <bool kSixteenRows>
struct SmallRows {
  uint64_t low;
  uint64_t high;
  int32_t elements;  // of a row from there on

  __device__ __forceinline__ SmallRows(const SmallParams& p, uint32_t first_row, uint32_t vector) {
    const uint32_t lane = threadIdx.x % kLanes;
    const uint32_t offset = lane % 4 * vector;
    const auto address = [&](uint32_t row) { return p.x + (gpu::smaller(row, p.num_rows - 1) * p.x_stride + offset) * 2; };
    low = address(first_row + lane / 4);
    high = kSixteenRows ? address(first_row + lane / 4 + 8) : 0;
    elements = static_cast<int32_t>(p.in_features - offset);
  }

  template <class Weights>
  __device__ __forceinline__ void load(uint32_t unit, ActivationUnit<Weights>& x) const {
#pragma unroll
    for (uint32_t half = 0; half < 2; ++half) {
      const uint32_t at = unit * unit_elements<Weights>() + half * (unit_elements<Weights>() / 2);
      const bool exists = static_cast<int32_t>(at) < elements;
#pragma unroll
      for (uint32_t part = 0; part < Weights::kParts; ++part) {
        const uint32_t bytes = at * 2 + part * 16;
        x.low[half][part] = ActivationUnit<Weights>::ordered(load_activations(low + bytes, exists));
        x.high[half][part] = make_uint4(0, 0, 0, 0);
        if constexpr (kSixteenRows) x.high[half][part] = ActivationUnit<Weights>::ordered(load_activations(high + bytes, exists));
      }
    }
  }
};

/// Columns of the result that a tile of eight weight rows has: gate and up share one.
template <bool kGated>
__host__ __device__ constexpr uint32_t tile_columns() {
  return kGated ? kTileRows / 2 : kTileRows;
}

/// Where a work group works: all its tiles are of one weight, or of the pair.
template <bool kGated>
struct SmallPlace {
  uint32_t projection;  // of the pair: gate
  uint32_t slice_bits;
  uint32_t first_column;

  __device__ __forceinline__ explicit SmallPlace(const SmallParams& p) {
    projection = kGated ? kSmallPair : 0;
    if constexpr (!kGated) {
#pragma unroll
      for (uint32_t i = 1; i < kSmallProjections; ++i) projection += blockIdx.x >= p.projection[i].first_group ? 1 : 0;
    }
    slice_bits = p.projection[projection].slice_bits;
    first_column = (blockIdx.x - p.projection[projection].first_group) * num_columns();
  }
  [[nodiscard]] __device__ __forceinline__ uint32_t num_columns() const {
    return (kSmallWarps >> slice_bits) * tile_columns<kGated>();
  }
  /// The projection of row `i` of a tile, and its column of the result in the tile.
  [[nodiscard]] __device__ __forceinline__ uint32_t projection_of(uint32_t i) const {
    return kGated ? kSmallPair + i / tile_columns<kGated>() : projection;
  }
  [[nodiscard]] __device__ __forceinline__ uint32_t column_of(uint32_t tile, uint32_t i) const {
    return first_column + tile * tile_columns<kGated>() + i % tile_columns<kGated>();
  }
};

template <class Weights, bool kGated>
__device__ __forceinline__ WeightRow<Weights> small_row(const SmallParams& p, const SmallPlace<kGated>& at) {
  const uint32_t tile = threadIdx.x / kLanes >> at.slice_bits;
  const uint32_t row = threadIdx.x % kLanes / 4;
  const uint32_t sum = threadIdx.x % 4 * 2;
  const uint32_t last = p.projection[at.projection].out_features - 1;
  // Of codes and of sums the same projection, but where block scales make a difference between them.
  WeightRow<Weights> result(p.projection[at.projection_of(row)].weight,
                            {gpu::smaller(at.column_of(tile, row), last), gpu::smaller(at.column_of(tile, sum), last)},
                            p.in_features);
  if constexpr (kGated && Weights::kScalesSums) {
    const uint32_t n = gpu::smaller(at.column_of(tile, sum), last);
    result.scales = Weights::scale_row(p.projection[at.projection_of(sum)].weight, {n, n});
  }
  return result;
}

/// Sums of all warps: part[warp][value][lane], two values of eight rows of x, or four of sixteen.
template <bool kSixteenRows>
struct SmallSums {
  static constexpr uint32_t kValues = kSixteenRows ? 4 : 2;
  float part[kSmallWarps][kValues][kLanes];

  __device__ __forceinline__ void store(const float (&sums)[4]) {
#pragma unroll
    for (uint32_t i = 0; i < kValues; ++i) part[threadIdx.x / kLanes][i][threadIdx.x % kLanes] = sums[i];
  }
  /// Of x row `row` and weight row `i` of `tile`.
  [[nodiscard]] __device__ __forceinline__ float value(uint32_t tile, uint32_t row, uint32_t i, uint32_t slice_bits) const {
    const float* first = &part[tile << slice_bits][row / 8 * 2 + i % 2][row % 8 * 4 + i / 2];
    float sum = *first;
#pragma unroll
    for (uint32_t slice = 1; slice < kSmallWarps; ++slice) {
      if (slice >> slice_bits == 0) sum += first[slice * kValues * kLanes];
    }
    return sum;
  }
};

/// Stores the work group's results. `scales`: of the rows of its tiles.
template <bool kGated, bool kSixteenRows>
__device__ __forceinline__ void store_small(const SmallParams& p, const SmallPlace<kGated>& at, uint32_t first_row,
                                            const SmallSums<kSixteenRows>& sums, const float* scales) {
  constexpr uint32_t kColumns = tile_columns<kGated>();
  constexpr uint32_t kRows = kSixteenRows ? 16 : 8;
  const SmallProjection& out = p.projection[at.projection];
  const uint32_t num_values = (kSmallWarps >> at.slice_bits) * kColumns * kRows;
#pragma unroll 1
  for (uint32_t v = threadIdx.x; v < num_values; v += kSmallThreads) {
    const uint32_t i = v % kColumns;
    const uint32_t row = v / kColumns % kRows;
    const uint32_t tile = v / (kColumns * kRows);
    const uint32_t column = at.column_of(tile, i);
    if (first_row + row >= p.num_rows || column >= out.out_features) continue;
    float value = sums.value(tile, row, i, at.slice_bits) * scales[tile * kTileRows + i];
    if constexpr (kGated) {
      const float up = sums.value(tile, row, i + kColumns, at.slice_bits) * scales[tile * kTileRows + i + kColumns];
      value = gpu::silu(value) * up;
    }
    gpu::store_float(out.out, (first_row + row) * out.out_stride + column, value, out.out_is_bf16 != 0);
  }
}

/// What a work group does. `scales` has room for those of kSmallThreads / 4 rows.
template <class Weights, bool kGated, uint32_t kBatches, bool kSixteenRows>
__device__ __forceinline__ void multiply_small(const SmallParams& p, SmallSums<kSixteenRows>& group_sums, float* scales) {
  constexpr uint32_t kUnits = batch_units<Weights>();
  const SmallPlace<kGated> at(p);
  const uint32_t slices = 1U << at.slice_bits;
  const uint32_t slice = threadIdx.x / kLanes & (slices - 1);
  const uint32_t units = num_units<Weights>(p.in_features);
  const WeightParams& w = p.projection[at.projection].weight;
  const WeightRow<Weights> row = small_row<Weights, kGated>(p, at);
  const uint64_t policy = evict_first_policy();
  WeightUnit<Weights> ring[kBatches * kUnits];
  const auto load = [&](uint32_t i, uint32_t unit) { ring[i].load(w, row, unit, unit < units, policy); };
#pragma unroll
  for (uint32_t i = 0; i < kBatches * kUnits; ++i) load(i, slice + i * slices);
  float scale = Weights::kSumFactor;
  if (threadIdx.x < (kSmallWarps >> at.slice_bits) * kTileRows) {
    const uint32_t n = at.column_of(threadIdx.x / kTileRows, threadIdx.x % kTileRows);
    const WeightParams& of = p.projection[at.projection_of(threadIdx.x % kTileRows)].weight;
    if (n < p.projection[at.projection].out_features) scale *= Weights::Format::outer_scale(of, of.scale, of.global_scale, n);
  }
  const uint32_t first_row = blockIdx.y * (kSixteenRows ? 16 : 8);
  const SmallRows<kSixteenRows> rows(p, first_row, Weights::Format::kVector);
  if (p.releases_early != 0) gpu::allow_next();
  gpu::wait_for_previous();
  if (p.releases_early == 0) gpu::allow_next();
  float sums[4] = {};
  const uint32_t round = kBatches * kUnits * slices;
#pragma unroll 1
  for (uint32_t first = slice; first < units; first += round) {
#pragma unroll
    for (uint32_t batch = 0; batch < kBatches; ++batch) {
      ActivationUnit<Weights> x[kUnits];
#pragma unroll
      for (uint32_t i = 0; i < kUnits; ++i) rows.load(first + (batch * kUnits + i) * slices, x[i]);
#pragma unroll
      for (uint32_t i = 0; i < kUnits; ++i) {
        const uint32_t unit = first + (batch * kUnits + i) * slices;
        add_unit(ring[batch * kUnits + i], x[i], sums);
        load(batch * kUnits + i, unit + round);
      }
    }
  }
  group_sums.store(sums);
  if (threadIdx.x < kSmallThreads / 4) scales[threadIdx.x] = scale;
  __syncthreads();
  store_small<kGated>(p, at, first_row, group_sums, scales);
}

/// kBatches: batches of weights that are under way together. It changes no bits.
template <class Weights, uint32_t kBatches, bool kSixteenRows>
__global__ void __launch_bounds__(kSmallThreads, kSixteenRows ? 1 : 2) small_linear(const __grid_constant__ SmallParams p) {
  __shared__ SmallSums<kSixteenRows> group_sums;
  __shared__ float scales[kSmallThreads / 4];
  if (blockIdx.x < p.projection[kSmallPair].first_group) {
    multiply_small<Weights, false, kBatches, kSixteenRows>(p, group_sums, scales);
  } else {
    multiply_small<Weights, true, kBatches, kSixteenRows>(p, group_sums, scales);
  }
}

}  // namespace

/// "small_linear_bf16_x8_b1": 8 rows of x at a time, 1 batch. `format` names the format in kernel names.
template <class Weights>
void add_small_kernels(gpu::KernelList& list, const std::string& format) {
  const std::string name = "small_linear_" + format;
  list.push_back(gpu::kernel_entry(name + "_x8_b1", small_linear<Weights, 1, false>, kSmallThreads));
  list.push_back(gpu::kernel_entry(name + "_x8_b2", small_linear<Weights, 2, false>, kSmallThreads));
  list.push_back(gpu::kernel_entry(name + "_x16_b1", small_linear<Weights, 1, true>, kSmallThreads));
  list.push_back(gpu::kernel_entry(name + "_x16_b2", small_linear<Weights, 2, true>, kSmallThreads));
}

}  // namespace foretoken::cuda
