// abs_max, quantize_fp8_row, quantize_fp8_block, quantize_nvfp4, dequantize (core/ops/quantize.h). Largest magnitudes are maxima
// of integers, so the order in which they are found does not matter; a NaN beats all.
#pragma once

#include "backends/gpu/numeric.inl"
#include "backends/gpu/quantize_params.h"
#include "core/ops/quantize.h"

namespace foretoken::gpu {
namespace {

constexpr uint32_t kBlockExtent = kFp8BlockExtent;
constexpr uint32_t kGroup = kNvfp4Group;
constexpr float kE4M3Max = 448.0F;
constexpr int32_t kE4M3LastCode = 0x7e;
constexpr uint8_t kE4M3Nan = 0x7f;
constexpr float kE2M1Max = 6.0F;
constexpr float kSmallestBlockScale = 1e-12F;

FORETOKEN_DEVICE uint32_t magnitude_bits(float value) { return float_bits(value) & 0x7fffffffU; }
FORETOKEN_DEVICE uint32_t larger(uint32_t a, uint32_t b) { return a > b ? a : b; }

FORETOKEN_DEVICE float source_value(const QuantizeSource& source, uint64_t row, uint32_t column) {
  return load_float(source.x, row * source.stride + column, source.is_bf16 != 0);
}

/// Largest over the work group; every thread gets it.
FORETOKEN_DEVICE uint32_t group_largest(uint32_t value, uint32_t* scratch) {
  for (int mask = kLanes / 2; mask > 0; mask /= 2) value = larger(value, lane_xor(value, mask));
  __syncthreads();
  if (threadIdx.x % kLanes == 0) scratch[threadIdx.x / kLanes] = value;
  __syncthreads();
  value = 0;
  for (uint32_t warp = 0; warp < kQuantizeThreads / kLanes; ++warp) value = larger(value, scratch[warp]);
  return value;
}

/// 1 where the quotient is 0.
FORETOKEN_DEVICE float divided_or_one(float amax, float divisor) {
  const float quotient = amax / divisor;
  return quotient == 0.0F ? 1.0F : quotient;
}

/// The largest magnitude that a word of elements holds.
template <bool kIsBf16>
FORETOKEN_DEVICE uint32_t word_largest(uint32_t word) {
  return kIsBf16 ? larger(word << 16 & 0x7fff0000U, word & 0x7fff0000U) : word & 0x7fffffffU;
}

/// A lane's share of one row. Several vectors are under way at once, so that memory bounds the kernel.
template <bool kIsBf16>
FORETOKEN_DEVICE uint32_t lane_largest(const QuantizeSource& source, uint64_t row) {
  constexpr uint32_t kBytes = kIsBf16 ? 2 : 4;
  constexpr uint32_t kPerVector = sizeof(uint4) / kBytes;
  constexpr uint32_t kBatch = 4;
  const uint32_t lane = threadIdx.x % kLanes;
  const uint64_t address = source.x + row * source.stride * kBytes;
  const uint32_t num_vectors = address % sizeof(uint4) == 0 ? source.num_columns / kPerVector : 0;
  uint32_t largest = 0;
  for (uint32_t first = lane; first < num_vectors; first += kBatch * kLanes) {
    uint4 vectors[kBatch];
#pragma unroll
    for (uint32_t u = 0; u < kBatch; ++u) {
      const uint32_t v = first + u * kLanes;
      vectors[u] = v < num_vectors ? __ldg(pointer<const uint4>(address) + v) : make_uint4(0, 0, 0, 0);
    }
#pragma unroll
    for (const uint4& vector : vectors) {
      const uint32_t low = larger(word_largest<kIsBf16>(vector.x), word_largest<kIsBf16>(vector.y));
      const uint32_t high = larger(word_largest<kIsBf16>(vector.z), word_largest<kIsBf16>(vector.w));
      largest = larger(largest, larger(low, high));
    }
  }
  for (uint32_t k = num_vectors * kPerVector + lane; k < source.num_columns; k += kLanes) {
    largest = larger(largest, magnitude_bits(source_value(source, row, k)));
  }
  return largest;
}

__global__ void __launch_bounds__(kQuantizeThreads) abs_max(const AbsMaxParams p) {
  begin_kernel();
  __shared__ uint32_t scratch[kQuantizeThreads / kLanes];
  uint32_t largest = 0;
  for (uint64_t row = uint64_t{blockIdx.x} * kAbsMaxRows + threadIdx.x / kLanes; row < p.source.num_rows;
       row += uint64_t{gridDim.x} * kAbsMaxRows) {
    largest = larger(largest, p.source.is_bf16 != 0 ? lane_largest<true>(p.source, row) : lane_largest<false>(p.source, row));
  }
  largest = group_largest(largest, scratch);
  if (threadIdx.x == 0) pointer<uint32_t>(p.partial)[blockIdx.x] = largest;
}

__global__ void __launch_bounds__(kQuantizeThreads) abs_max_join(const AbsMaxJoinParams p) {
  begin_kernel();
  __shared__ uint32_t scratch[kQuantizeThreads / kLanes];
  uint32_t largest = 0;
  for (uint32_t i = threadIdx.x; i < p.num_partial; i += kQuantizeThreads) {
    largest = larger(largest, pointer<const uint32_t>(p.partial)[i]);
  }
  largest = group_largest(largest, scratch);
  if (threadIdx.x == 0) *pointer<float>(p.amax) = bits_to_float(largest);
}

__global__ void __launch_bounds__(kQuantizeThreads) quantize_fp8_row(const QuantizeFp8RowParams p) {
  begin_kernel();
  __shared__ uint32_t scratch[kQuantizeThreads / kLanes];
  uint32_t largest = 0;
  for (uint32_t k = threadIdx.x; k < p.source.num_columns; k += kQuantizeThreads) {
    largest = larger(largest, magnitude_bits(source_value(p.source, blockIdx.x, k)));
  }
  const float scale = divided_or_one(bits_to_float(group_largest(largest, scratch)), kE4M3Max);
  for (uint32_t k = threadIdx.x; k < p.source.num_columns; k += kQuantizeThreads) {
    pointer<uint8_t>(p.codes)[uint64_t{blockIdx.x} * p.source.num_columns + k] =
        float_to_e4m3(source_value(p.source, blockIdx.x, k) / scale);
  }
  if (threadIdx.x == 0) pointer<float>(p.scale)[blockIdx.x] = scale;
}

__global__ void __launch_bounds__(kQuantizeThreads) quantize_fp8_block(const QuantizeFp8BlockParams p) {
  begin_kernel();
  __shared__ uint32_t scratch[kQuantizeThreads / kLanes];
  const uint32_t column = blockIdx.x * kBlockExtent + threadIdx.x % kBlockExtent;
  const uint64_t first_row = uint64_t{blockIdx.y} * kBlockExtent;
  const uint64_t last_row = smaller(first_row + kBlockExtent, p.source.num_rows);
  const bool exists = column < p.source.num_columns;
  constexpr uint32_t kRowStep = kQuantizeThreads / kBlockExtent;
  uint32_t largest = 0;
  for (uint64_t row = first_row + threadIdx.x / kBlockExtent; row < last_row && exists; row += kRowStep) {
    largest = larger(largest, magnitude_bits(source_value(p.source, row, column)));
  }
  const float quotient = bits_to_float(group_largest(largest, scratch)) / kE4M3Max;
  const float scale = quotient < kSmallestBlockScale ? kSmallestBlockScale : quotient;
  for (uint64_t row = first_row + threadIdx.x / kBlockExtent; row < last_row && exists; row += kRowStep) {
    pointer<uint8_t>(p.codes)[row * p.source.num_columns + column] = float_to_e4m3(source_value(p.source, row, column) / scale);
  }
  if (threadIdx.x == 0) store_float(p.scale, uint64_t{blockIdx.y} * gridDim.x + blockIdx.x, scale, p.scale_is_bf16 != 0);
}

/// The codes of a group by its scale, the first in the lowest bits.
FORETOKEN_DEVICE uint2 nvfp4_codes(const float (&values)[kGroup], float divisor) {
  uint32_t nibbles[2] = {};
#pragma unroll
  for (uint32_t i = 0; i < kGroup; ++i) {
    const uint32_t code = divisor == 0.0F ? 0U : float_to_e2m1(values[i] / divisor);
    nibbles[i / 8] |= code << (i % 8 * 4);
  }
  return make_uint2(nibbles[0], nibbles[1]);
}

/// Sum of the first kCount values, folded by halves. A recursion, so that the values stay in registers.
template <uint32_t kCount>
FORETOKEN_DEVICE float folded(float (&values)[kGroup]) {
  if constexpr (kCount > 1) {
#pragma unroll
    for (uint32_t i = 0; i < kCount / 2; ++i) values[i] += values[i + kCount / 2];
    return folded<kCount / 2>(values);
  }
  return values[0];
}

/// Weighted squared error of a group by its scale.
FORETOKEN_DEVICE float nvfp4_error(const float (&values)[kGroup], const float (&column_weight)[kGroup], float divisor) {
  const uint2 codes = nvfp4_codes(values, divisor);
  float terms[kGroup];
#pragma unroll
  for (uint32_t first = 0; first < kGroup; first += 8) {
    float quantized[8];
    decode_e2m1x8(first == 0 ? codes.x : codes.y, quantized);
#pragma unroll
    for (uint32_t i = 0; i < 8; ++i) {
      const float e = fmaf(-quantized[i], divisor, values[first + i]);
      terms[first + i] = column_weight[first + i] * e * e;
    }
  }
  return folded<kGroup>(terms);
}

/// The scale code near `plain` with the smallest error.
FORETOKEN_DEVICE uint8_t best_nvfp4_scale(const float (&values)[kGroup], uint64_t column_weight, float global_scale,
                                          uint8_t plain) {
  if (plain == kE4M3Nan) return plain;
  float weights[kGroup];
#pragma unroll
  for (uint32_t i = 0; i < kGroup; ++i) weights[i] = pointer<const float>(column_weight)[i];
  constexpr auto kSteps = kNvfp4ScaleSteps;
  uint8_t best = plain;
  float least = nvfp4_error(values, weights, e4m3_to_float(plain) * global_scale);
#pragma unroll 1
  for (const int32_t step : kSteps) {
    const int32_t code = int32_t{plain} + step;
    const auto candidate = static_cast<uint8_t>(code < 0 ? 0 : smaller(code, kE4M3LastCode));
    const float error = nvfp4_error(values, weights, e4m3_to_float(candidate) * global_scale);
    if (error < least) {
      least = error;
      best = candidate;
    }
  }
  return best;
}

/// A thread per group of 16.
__global__ void __launch_bounds__(kQuantizeThreads) quantize_nvfp4(const QuantizeNvfp4Params p) {
  begin_kernel();
  const uint64_t row = blockIdx.x;
  const uint32_t num_groups = p.source.num_columns / kGroup;
  const float global_scale = divided_or_one(*pointer<const float>(p.amax), kE4M3Max * kE2M1Max);
  if (row == 0 && threadIdx.x == 0) *pointer<float>(p.global_scale) = global_scale;
  for (uint32_t g = threadIdx.x; g < num_groups; g += kQuantizeThreads) {
    float values[kGroup];
    uint32_t largest = 0;
#pragma unroll
    for (uint32_t i = 0; i < kGroup; ++i) {
      values[i] = source_value(p.source, row, g * kGroup + i);
      largest = larger(largest, magnitude_bits(values[i]));
    }
    uint8_t scale = float_to_e4m3(bits_to_float(largest) / (kE2M1Max * global_scale));
    if (p.column_weight != 0) {
      scale = best_nvfp4_scale(values, p.column_weight + uint64_t{g} * kGroup * sizeof(float), global_scale, scale);
    }
    const uint64_t at = row * num_groups + g;
    pointer<uint8_t>(p.scale)[at] = scale;
    pointer<uint2>(p.codes)[at] = nvfp4_codes(values, e4m3_to_float(scale) * global_scale);
  }
}

/// Element (n, k) of a weight.
FORETOKEN_DEVICE float dequantized(const DequantizeParams& p, uint64_t n, uint32_t k) {
  const uint64_t index = n * p.num_columns + k;
  switch (p.format) {
    case WeightFormat::kF32: return pointer<const float>(p.codes)[index];
    case WeightFormat::kBF16: return bf16_to_float(pointer<const uint16_t>(p.codes)[index]);
    case WeightFormat::kFp8Row: {
      const float scale = load_float(p.scale, p.one_scale != 0 ? 0 : n, p.scale_is_bf16 != 0);
      return e4m3_to_float(pointer<const uint8_t>(p.codes)[index]) * scale;
    }
    case WeightFormat::kFp8Block: {
      const uint64_t columns = (p.num_columns + kBlockExtent - 1) / kBlockExtent;
      const float scale = load_float(p.scale, n / p.block_rows * columns + k / kBlockExtent, p.scale_is_bf16 != 0);
      return e4m3_to_float(pointer<const uint8_t>(p.codes)[index]) * scale;
    }
    case WeightFormat::kNvfp4: {
      float values[8];
      decode_e2m1x8(pointer<const uint8_t>(p.codes)[index / 2] >> (index % 2 * 4), values);
      const float scale = e4m3_to_float(pointer<const uint8_t>(p.scale)[index / kGroup]);
      return values[0] * scale * pointer<const float>(p.global_scale)[n / p.rows_per_global_scale];
    }
  }
  return 0.0F;
}

__global__ void __launch_bounds__(kQuantizeThreads) dequantize(const DequantizeParams p) {
  begin_kernel();
  for (uint32_t k = threadIdx.x; k < p.num_columns; k += kQuantizeThreads) {
    store_float(p.out, uint64_t{blockIdx.x} * p.num_columns + k, dequantized(p, blockIdx.x, k), p.out_is_bf16 != 0);
  }
}

}  // namespace
}  // namespace foretoken::gpu
