// linear and linear_silu_mul for prefill, and the conversions in front of them: activations and weights become BF16, the inner
// scales of weights multiplied in, and sums are float32.
#pragma once

#include "backends/cuda/kernels/prefill_params.h"
#include "backends/cuda/kernels/tile_product.cuh"
#include "backends/gpu/kernel_entry.h"
#include "backends/gpu/weight_formats.inl"

namespace foretoken::cuda {
namespace {

using gpu::pointer;
using gpu::WeightParams;

using LargeTile = TileShape<kLargePrefillTile.rows, kLargePrefillTile.columns, 2, 2, 3>;
using SmallTile = TileShape<kSmallPrefillTile.rows, kSmallPrefillTile.columns, 2, 2, 4>;
static_assert(LargeTile::kThreads == kLargePrefillTile.threads && LargeTile::kBytes == kLargePrefillTile.group_memory);
static_assert(SmallTile::kThreads == kSmallPrefillTile.threads && SmallTile::kBytes == kSmallPrefillTile.group_memory);

template <class Shape>
__device__ __forceinline__ TileSource<Shape::kRowCopies> activation_source(const PrefillParams& p, uint32_t first_row) {
  TileSource<Shape::kRowCopies> source;
  source.base = p.x + threadIdx.x % 8 * 16;
#pragma unroll
  for (uint32_t i = 0; i < Shape::kRowCopies; ++i) {
    const uint32_t row = gpu::smaller(first_row + threadIdx.x / 8 + i * Shape::kCopyRows, p.num_rows - 1);
    source.offset[i] = static_cast<uint32_t>(row * p.x_stride * 2);
  }
  return source;
}

/// Weight rows of tile `tile`. Gated: eight rows of gate and eight of up in turn, so that a warp has both of a column.
template <class Shape, bool kGated>
__device__ __forceinline__ Bf16Columns<Shape> weight_columns(const PrefillParams& p, uint32_t tile) {
  const uint32_t first = tile * (kGated ? Shape::kColumns / 2 : Shape::kColumns);
  const uint32_t place = threadIdx.x / 8;
  const uint64_t row_bytes = uint64_t{p.in_features} * 2;
  Bf16Columns<Shape> columns;
  static_assert(Shape::kCopyRows % 16 == 0, "a thread copies from gate alone or from up alone");
  columns.source.base = (kGated && place / 8 % 2 != 0 ? p.second : p.weight) + first * row_bytes + threadIdx.x % 8 * 16;
#pragma unroll
  for (uint32_t i = 0; i < Shape::kColumnCopies; ++i) {
    const uint32_t j = place + i * Shape::kCopyRows;
    const uint32_t row = kGated ? j / 16 * 8 + j % 8 : j;
    columns.source.offset[i] = static_cast<uint32_t>(gpu::smaller(row, p.out_features - 1 - first) * row_bytes);
  }
  return columns;
}

__device__ __forceinline__ float row_scale(const RowScales& s, uint32_t n) {
  return s.scales == 0 ? 1.0F : gpu::load_float(s.scales, n / s.rows_per_scale, s.is_bf16 != 0);
}
/// Results of weight rows n and n + 1.
__device__ __forceinline__ float2 scaled(const RowScales& s, uint32_t n, bool has_second, float2 values) {
  if (s.scales == 0) return values;
  return make_float2(values.x * row_scale(s, n), has_second ? values.y * row_scale(s, n + 1) : 0.0F);
}

template <class Shape, bool kGated>
__global__ void __launch_bounds__(Shape::kThreads, 2) prefill(const PrefillParams p) {
  gpu::begin_kernel();
  extern __shared__ __align__(1024) uint8_t stages[];
  const uint32_t first_row = blockIdx.x * Shape::kRows;
  const uint32_t first_column = blockIdx.y * (kGated ? Shape::kColumns / 2 : Shape::kColumns);
  TileSums<Shape> sums{};
  multiply_tiles<Shape>(shared_address(stages), activation_source<Shape>(p, first_row),
                        weight_columns<Shape, kGated>(p, blockIdx.y), p.in_features / kTileDepth, sums);
  // Calls use(column of the result, whether there is a next one) where there is such an element, and stores what it gives.
  const auto store = [&](uint32_t row, uint32_t column, auto use) {
    row += first_row;
    column += first_column;
    if (row >= p.num_rows || column >= p.out_features) return;
    const bool has_second = column + 1 < p.out_features;
    store_pair(p.out, row * p.out_stride + column, use(p.first_row + column, has_second), p.out_is_bf16 != 0, p.stores_pairs != 0,
               has_second);
  };
  if constexpr (kGated) {
    sums.for_each_gated_pair([&](uint32_t row, uint32_t column, float2 gates, float2 ups) {
      store(row, column, [&](uint32_t n, bool has_second) {
        const float2 gate = scaled(p.scales, n, has_second, gates);
        const float2 up = scaled(p.second_scales, n, has_second, ups);
        return make_float2(gpu::silu(gate.x) * up.x, gpu::silu(gate.y) * up.y);
      });
    });
  } else {
    sums.for_each_pair([&](uint32_t row, uint32_t column, float first, float second) {
      store(row, column,
            [&](uint32_t n, bool has_second) { return scaled(p.scales, n, has_second, make_float2(first, second)); });
    });
  }
}

/// The first of a thread's kConvertElements columns.
__device__ __forceinline__ uint32_t converted_column() { return (blockIdx.x * kConvertThreads + threadIdx.x) * kConvertElements; }

__device__ __forceinline__ void store_converted(uint64_t out, uint64_t element, const uint32_t (&packed)[kConvertElements / 2]) {
  auto* target = pointer<uint4>(out + element * 2);
  target[0] = make_uint4(packed[0], packed[1], packed[2], packed[3]);
  target[1] = make_uint4(packed[4], packed[5], packed[6], packed[7]);
}

__global__ void __launch_bounds__(kConvertThreads) prefill_round(const PrefillRoundParams p) {
  gpu::begin_kernel();
  const uint32_t column = converted_column();
  if (column >= p.num_columns) return;
  const auto* source = pointer<const float4>(p.x + (blockIdx.y * p.x_stride + column) * 4);
  uint32_t packed[kConvertElements / 2];
#pragma unroll
  for (uint32_t i = 0; i < kConvertElements / 4; ++i) {
    const float4 four = source[i];
    packed[2 * i] = pack_bf16(four.x, four.y);
    packed[2 * i + 1] = pack_bf16(four.z, four.w);
  }
  store_converted(p.out, uint64_t{blockIdx.y} * p.num_columns + column, packed);
}

/// kConvertElements weights share their inner scale.
template <class Format>
__global__ void __launch_bounds__(kConvertThreads) prefill_widen(const PrefillWidenParams p) {
  gpu::begin_kernel();
  constexpr uint32_t kWords = kConvertElements * 4 / Format::kVector;
  constexpr uint32_t kWordsPerPart = kWords * Format::kPart / kConvertElements;
  const uint32_t column = converted_column();
  if (column >= p.in_features) return;
  const uint32_t n = p.first_row + blockIdx.y;
  const uint2* source = pointer<const uint2>(p.weight.codes + Format::bytes(uint64_t{n} * p.in_features + column));
  uint32_t words[kWords];
#pragma unroll
  for (uint32_t i = 0; i < kWords / 2; ++i) {
    const uint2 two = __ldg(source + i);
    words[2 * i] = two.x;
    words[2 * i + 1] = two.y;
  }
  float scale = Format::inner_scale(p.weight, p.weight.scale, n, column);
  if (p.takes_row_scales != 0) scale *= Format::outer_scale(p.weight, p.weight.scale, p.weight.global_scale, n);
  uint32_t packed[kConvertElements / 2];
#pragma unroll
  for (uint32_t part = 0; part < kConvertElements / Format::kPart; ++part) {
    gpu::Codes codes{};
#pragma unroll
    for (uint32_t i = 0; i < kWordsPerPart; ++i) codes.word[i] = words[part * kWordsPerPart + i];
    float values[Format::kPart];
    Format::decode(codes, 0, values);
#pragma unroll
    for (uint32_t i = 0; i < Format::kPart; i += 2) {
      packed[(part * Format::kPart + i) / 2] = pack_bf16(values[i] * scale, values[i + 1] * scale);
    }
  }
  store_converted(p.out, uint64_t{blockIdx.y} * p.in_features + column, packed);
}

__global__ void __launch_bounds__(kConvertThreads) prefill_gate(const PrefillGateParams p) {
  gpu::begin_kernel();
  const uint32_t column = (blockIdx.x * kConvertThreads + threadIdx.x) * 4;
  if (column >= p.num_columns) return;
  const uint64_t element = uint64_t{blockIdx.y} * p.num_columns + column;
  const uint64_t target = blockIdx.y * p.out_stride + column;
#pragma unroll
  for (uint32_t pair = 0; pair < 4; pair += 2) {
    const uint32_t n = p.first_row + column + pair;
    const float2 gate = scaled(p.gate_scales, n, true, *pointer<const float2>(p.gate + (element + pair) * 4));
    const float2 up = scaled(p.up_scales, n, true, *pointer<const float2>(p.up + (element + pair) * 4));
    store_pair(p.out, target + pair, make_float2(gpu::silu(gate.x) * up.x, gpu::silu(gate.y) * up.y), p.out_is_bf16 != 0, true,
               true);
  }
}

template <class Shape, bool kGated>
gpu::KernelEntry tile_entry(std::string name) {
  gpu::KernelEntry entry = gpu::kernel_entry(std::move(name), prefill<Shape, kGated>, Shape::kThreads);
  entry.large_group_memory = true;
  return entry;
}

}  // namespace
}  // namespace foretoken::cuda
