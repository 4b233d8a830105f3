// The experts of prefill on tensor cores: a work group takes some columns of one expert, for all of its pairs, tile by tile.
#pragma once

#include <type_traits>

#include "backends/cuda/kernels/moe_prefill_params.h"
#include "backends/cuda/kernels/tile_product.cuh"
#include "backends/gpu/kernel_entry.h"
#include "backends/gpu/moe_experts.inl"

namespace foretoken::cuda {
namespace {

using gpu::MoeExpertsParams;
using gpu::pointer;
using gpu::WeightParams;

using FewPairsTile = TileShape<kFewPairsTile.rows, kFewPairsTile.columns, 1, 4, 4>;
using ManyPairsTile = TileShape<kManyPairsTile.rows, kManyPairsTile.columns, 2, 2, 3>;
static_assert(FewPairsTile::kThreads == kFewPairsTile.threads && FewPairsTile::kBytes == kFewPairsTile.group_memory);
static_assert(ManyPairsTile::kThreads == kManyPairsTile.threads && ManyPairsTile::kBytes == kManyPairsTile.group_memory);

/// Pairs of one expert.
struct ExpertPairs {
  const int32_t* pairs;
  uint32_t count;
};

/// Rows of x for pairs `first` .. of a tile; past the last one it is repeated.
template <class Shape>
__device__ __forceinline__ TileSource<Shape::kRowCopies> pair_source(const MoeExpertsParams& p, const ExpertPairs& at,
                                                                     uint32_t first) {
  TileSource<Shape::kRowCopies> source;
  source.base = p.x + threadIdx.x % 8 * 16;
#pragma unroll
  for (uint32_t i = 0; i < Shape::kRowCopies; ++i) {
    const uint32_t place = gpu::smaller(first + threadIdx.x / 8 + i * Shape::kCopyRows, at.count - 1);
    const uint32_t row = static_cast<uint32_t>(at.pairs[place]) / p.pairs_per_row;
    source.offset[i] = static_cast<uint32_t>(row * p.x_stride * 2);
  }
  return source;
}

/// Row of an expert's weight that is column `j` of a tile. Gated: eight rows of gate and eight of up in turn; past the last row
/// it is repeated.
template <bool kGated>
__device__ __forceinline__ uint32_t expert_row(const MoeExpertsParams& p, uint32_t first_column, uint32_t j) {
  const uint32_t column = gpu::smaller(first_column + (kGated ? j / 16 * 8 + j % 8 : j), p.out_features - 1);
  return kGated && j / 8 % 2 != 0 ? column + p.out_features : column;
}

template <class Shape, bool kGated>
__device__ __forceinline__ Bf16Columns<Shape> bf16_columns(const MoeExpertsParams& p, const WeightParams& weight,
                                                           uint32_t first_column) {
  Bf16Columns<Shape> columns;
  columns.source.base = weight.codes + threadIdx.x % 8 * 16;
#pragma unroll
  for (uint32_t i = 0; i < Shape::kColumnCopies; ++i) {
    const uint32_t row = expert_row<kGated>(p, first_column, threadIdx.x / 8 + i * Shape::kCopyRows);
    columns.source.offset[i] = row * p.in_features * 2;
  }
  return columns;
}

/// The columns of a tile where they lie in memory as codes, which become BF16 on the way. A thread takes sixteen of a row at a
/// time: they share their inner scale. Outer scales are left to the results.
template <class Shape, class Format, bool kGated>
struct CodeColumns {
  static constexpr uint32_t kUnit = 16;
  static constexpr uint32_t kUnitsOfRow = kTileDepth / kUnit;
  static constexpr uint32_t kUnits = Shape::kColumns * kUnitsOfRow / Shape::kThreads;
  static constexpr uint32_t kWords = kUnit * 4 / Format::kVector;
  static constexpr uint32_t kWordsPerPart = kWords * Format::kPart / kUnit;

  const WeightParams& weight;
  uint32_t row[kUnits];
  uint32_t in_features;
  uint32_t words[kUnits][kWords];
  float scale[kUnits];

  __device__ __forceinline__ CodeColumns(const MoeExpertsParams& p, const WeightParams& expert, uint32_t first_column)
      : weight(expert), in_features(p.in_features) {
#pragma unroll
    for (uint32_t i = 0; i < kUnits; ++i) row[i] = expert_row<kGated>(p, first_column, column_of(i));
  }
  [[nodiscard]] __device__ __forceinline__ static uint32_t column_of(uint32_t i) {
    return (threadIdx.x + i * Shape::kThreads) / kUnitsOfRow;
  }

  __device__ __forceinline__ void fetch(uint32_t step) {
    const uint32_t k = step * kTileDepth + threadIdx.x % kUnitsOfRow * kUnit;
#pragma unroll
    for (uint32_t i = 0; i < kUnits; ++i) {
      const uint2* source = pointer<const uint2>(weight.codes + Format::bytes(uint64_t{row[i]} * in_features + k));
#pragma unroll
      for (uint32_t word = 0; word < kWords; word += 2) {
        const uint2 two = __ldg(source + word / 2);
        words[i][word] = two.x;
        words[i][word + 1] = two.y;
      }
      scale[i] = Format::inner_scale(weight, weight.scale, row[i], k);
    }
  }

  __device__ __forceinline__ void put(uint32_t stage, uint32_t /*step*/) const {
    const uint32_t chunk = threadIdx.x % kUnitsOfRow * 2;
#pragma unroll
    for (uint32_t i = 0; i < kUnits; ++i) {
      uint32_t packed[kUnit / 2];
#pragma unroll
      for (uint32_t part = 0; part < kUnit / Format::kPart; ++part) {
        gpu::Codes codes{};
#pragma unroll
        for (uint32_t word = 0; word < kWordsPerPart; ++word) codes.word[word] = words[i][part * kWordsPerPart + word];
        float values[Format::kPart];
        Format::decode(codes, 0, values);
#pragma unroll
        for (uint32_t e = 0; e < Format::kPart; e += 2) {
          packed[(part * Format::kPart + e) / 2] = pack_bf16(values[e] * scale[i], values[e + 1] * scale[i]);
        }
      }
      store_shared(stage + swizzled(column_of(i), chunk), make_uint4(packed[0], packed[1], packed[2], packed[3]));
      store_shared(stage + swizzled(column_of(i), chunk + 1), make_uint4(packed[4], packed[5], packed[6], packed[7]));
    }
  }
};

template <class Shape, class Format, bool kGated>
__global__ void __launch_bounds__(Shape::kThreads, 2) moe_prefill(const MoeExpertsParams p) {
  gpu::begin_kernel();
  extern __shared__ __align__(1024) uint8_t stages[];
  const auto* offsets = pointer<const int32_t>(p.expert_offsets);
  const uint32_t expert = gpu::find_active_expert(offsets, p.num_experts, blockIdx.y);
  if (expert == p.num_experts) return;
  const WeightParams weight = gpu::expert_weight(p.weight, expert);
  const ExpertPairs at{.pairs = pointer<const int32_t>(p.expert_pairs) + offsets[expert],
                       .count = static_cast<uint32_t>(offsets[expert + 1] - offsets[expert])};
  const uint32_t first_column = blockIdx.x * (kGated ? Shape::kColumns / 2 : Shape::kColumns);
  const bool is_even = p.out_features % 2 == 0;
  const auto scaled = [&](float2 values, uint32_t n) {
    const uint32_t last = p.out_features * (kGated ? 2 : 1) - 1;
    return make_float2(values.x * Format::outer_scale(weight, weight.scale, weight.global_scale, n),
                       values.y * Format::outer_scale(weight, weight.scale, weight.global_scale, gpu::smaller(n + 1, last)));
  };
  for (uint32_t first = 0; first < at.count; first += Shape::kRows) {
    TileSums<Shape> sums{};
    const auto rows = pair_source<Shape>(p, at, first);
    const uint32_t num_steps = p.in_features / kTileDepth;
    if constexpr (std::is_same_v<Format, gpu::Bf16Format>) {
      multiply_tiles<Shape>(shared_address(stages), rows, bf16_columns<Shape, kGated>(p, weight, first_column), num_steps, sums);
    } else {
      multiply_tiles<Shape>(shared_address(stages), rows, CodeColumns<Shape, Format, kGated>(p, weight, first_column), num_steps,
                            sums);
    }
    const auto store = [&](uint32_t row, uint32_t column, float2 values) {
      const uint64_t index = static_cast<uint64_t>(at.pairs[row]) * p.out_features + column;
      store_pair(p.out, index, values, p.out_is_bf16 != 0, is_even, column + 1 < p.out_features);
    };
    const auto exists = [&](uint32_t row, uint32_t column) { return row < at.count && column < p.out_features; };
    if constexpr (kGated) {
      sums.for_each_gated_pair([&](uint32_t row, uint32_t column, float2 gate, float2 up) {
        row += first;
        column += first_column;
        if (!exists(row, column)) return;
        gate = scaled(gate, column);
        up = scaled(up, column + p.out_features);
        store(row, column, make_float2(gpu::silu(gate.x) * up.x, gpu::silu(gate.y) * up.y));
      });
    } else {
      sums.for_each_pair([&](uint32_t row, uint32_t column, float one, float other) {
        row += first;
        column += first_column;
        if (exists(row, column)) store(row, column, scaled(make_float2(one, other), column));
      });
    }
  }
}

template <class Shape, class Format, bool kGated>
gpu::KernelEntry expert_entry(std::string name) {
  gpu::KernelEntry entry = gpu::kernel_entry(std::move(name), moe_prefill<Shape, Format, kGated>, Shape::kThreads);
  entry.large_group_memory = true;
  return entry;
}

/// Experts with few pairs, in each format.
template <class Format>
void add_format(gpu::KernelList& list, const std::string& format) {
  list.push_back(expert_entry<FewPairsTile, Format, true>("moe_prefill_up_" + format));
  list.push_back(expert_entry<FewPairsTile, Format, false>("moe_prefill_down_" + format));
}

}  // namespace
}  // namespace foretoken::cuda
