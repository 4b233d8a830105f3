// Weights into FP8 and NVFP4 and back. The loops are plain code that the compiler turns into vectors: largest magnitudes are
// maxima of integers, and encoding takes integer operations only after the one division, so all instruction sets give equal
// bytes. Errors of NVFP4 groups are float32 sums in the order that core/ops/quantize.h fixes.
#include "backends/cpu/kernels/quantize_params.h"

#include "backends/cpu/kernels/e4m3_simd.h"
#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/kernels/simd.h"
#include "core/ops/quantize.h"

namespace foretoken::cpu::FORETOKEN_CPU_ISA {
namespace {

constexpr uint32_t kMagnitude = 0x7fffffffU;
constexpr uint32_t kInfinityBits = 0x7f800000U;
constexpr uint32_t kNanBits = 0x7fc00000U;
constexpr size_t kTile = static_cast<size_t>(kFp8BlockExtent);
constexpr size_t kGroup = static_cast<size_t>(kNvfp4Group);
constexpr float kE4M3Max = 448.0F;
constexpr uint32_t kE4M3Nan = 0x7f;
constexpr int32_t kE4M3LastCode = 0x7e;
constexpr float kE2M1Max = 6.0F;
constexpr float kSmallestBlockScale = 1e-12F;

FORETOKEN_SIMD_INLINE uint32_t bits_of(float value) { return __builtin_bit_cast(uint32_t, value); }
FORETOKEN_SIMD_INLINE float float_of(uint32_t bits) { return __builtin_bit_cast(float, bits); }
FORETOKEN_SIMD_INLINE uint32_t bits_of(uint16_t bf16) { return static_cast<uint32_t>(bf16) << 16; }
FORETOKEN_SIMD_INLINE float value_of(float value) { return value; }
FORETOKEN_SIMD_INLINE float value_of(uint16_t bf16) { return float_of(bits_of(bf16)); }

/// Bits of the largest magnitude; those of a NaN beat all others, because magnitudes order like their bits.
template <class T>
FORETOKEN_SIMD_INLINE uint32_t max_magnitude(const T* x, size_t count) {
  uint32_t largest = 0;
  for (size_t i = 0; i < count; ++i) {
    const uint32_t magnitude = bits_of(x[i]) & kMagnitude;
    largest = magnitude > largest ? magnitude : largest;
  }
  return largest;
}

/// The power of two whose last bit is the step of the codes round a float >= 0 of these bits: a step is 2^-kMantissaBits of the
/// value's own power of two, but of none below 2^kLowest. Adding it rounds to nearest even.
template <uint32_t kMantissaBits, uint32_t kLowest>
FORETOKEN_SIMD_INLINE uint32_t step_power_of(uint32_t magnitude) {
  const uint32_t power = magnitude & kInfinityBits;
  return (power > kLowest << 23 ? power : kLowest << 23) + ((23U - kMantissaBits) << 23);
}

/// Those steps, counted from 0: the codes of a small float.
template <uint32_t kMantissaBits, uint32_t kLowest>
FORETOKEN_SIMD_INLINE uint32_t count_steps(uint32_t magnitude) {
  const uint32_t step_power = step_power_of<kMantissaBits, kLowest>(magnitude);
  const uint32_t steps = bits_of(float_of(magnitude) + float_of(step_power)) - step_power;
  return steps + (((step_power >> 23) - (23U - kMantissaBits) - kLowest) << kMantissaBits);
}

/// E4M3 of `value`, magnitudes above 448 becoming 448; every NaN is 0x7f.
FORETOKEN_SIMD_INLINE uint32_t encode_e4m3(float value) {
  const uint32_t bits = bits_of(value);
  const uint32_t magnitude = bits & kMagnitude;
  const uint32_t clamped = magnitude < bits_of(kE4M3Max) ? magnitude : bits_of(kE4M3Max);
  const uint32_t code = count_steps<3, 127 - 6>(clamped) | (bits >> 24 & 0x80U);
  return magnitude > kInfinityBits ? 0x7fU : code;
}

/// E2M1 of `value`, magnitudes above 6 becoming 6; every NaN is 0, and so is -0, while a negative value that rounds to 0 keeps
/// its sign.
FORETOKEN_SIMD_INLINE uint32_t encode_e2m1(float value) {
  const uint32_t bits = bits_of(value);
  const uint32_t magnitude = bits & kMagnitude;
  const uint32_t clamped = magnitude < bits_of(kE2M1Max) ? magnitude : bits_of(kE2M1Max);
  const uint32_t sign = magnitude == 0 ? 0U : bits >> 28 & 0x8U;
  const uint32_t code = count_steps<1, 127>(clamped) | sign;
  return magnitude > kInfinityBits ? 0U : code;
}

/// Codes below the normal range get the exponent of its lowest power of two, which is then taken away.
FORETOKEN_SIMD_INLINE float decode_e4m3(uint32_t code) {
  const uint32_t magnitude = code & 0x7fU;
  const uint32_t is_subnormal = magnitude < 8 ? 1U : 0U;
  const uint32_t lowest = is_subnormal * (121U << 23);
  const float value = float_of((magnitude << 20) + ((120U + is_subnormal) << 23)) - float_of(lowest);
  return float_of((magnitude == 0x7fU ? kNanBits : bits_of(value)) | (code & 0x80U) << 24);
}

FORETOKEN_SIMD_INLINE float decode_e2m1(uint32_t code) {
  const uint32_t magnitude = code & 0x7U;
  const uint32_t normal = (magnitude << 22) + (126U << 23);
  const uint32_t value = magnitude < 2 ? magnitude * bits_of(0.5F) : normal;
  return float_of(value | (code & 0x8U) << 28);
}

/// The value of encode_e2m1(value), with the sign of `value` where that is 0: steps are added and taken away again.
FORETOKEN_SIMD_INLINE float round_to_e2m1(float value) {
  const uint32_t bits = bits_of(value);
  const uint32_t magnitude = bits & kMagnitude;
  const uint32_t clamped = magnitude < bits_of(kE2M1Max) ? magnitude : bits_of(kE2M1Max);
  const float step_power = float_of(step_power_of<1, 127>(clamped));
  const uint32_t rounded = bits_of(float_of(clamped) + step_power - step_power);
  const uint32_t kept = magnitude > kInfinityBits ? 0U : ~0U;  // a mask, because a choice would become a branch round the sum
  return float_of((rounded | (bits & ~kMagnitude)) & kept);
}

/// BF16 of `value`, nearest, ties to even; a NaN stays one.
FORETOKEN_SIMD_INLINE uint16_t encode_bf16(float value) {
  const uint32_t bits = bits_of(value);
  const uint32_t rounded = (bits + 0x7fffU + (bits >> 16 & 1U)) >> 16;
  return static_cast<uint16_t>((bits & kMagnitude) > kInfinityBits ? bits >> 16 | 0x40U : rounded);
}

/// Calls `use` with the source's elements as what they are: `use(const T* first)`.
template <class Use>
FORETOKEN_SIMD_INLINE void with_elements(const QuantizeSource& source, Use&& use) {
  if (source.is_bf16) {
    use(static_cast<const uint16_t*>(source.x));
  } else {
    use(static_cast<const float*>(source.x));
  }
}

FORETOKEN_SIMD_INLINE size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

void abs_max(const AbsMaxParams& p, uint32_t begin, uint32_t end) {
  with_elements(p.source, [&](const auto* x) {
    for (size_t item = begin; item < end; ++item) {
      const size_t last = smaller((item + 1) * p.rows_per_item, p.source.num_rows);
      uint32_t largest = 0;
      for (size_t n = item * p.rows_per_item; n < last; ++n) {
        const uint32_t of_row = max_magnitude(x + n * p.source.stride, p.source.num_columns);
        largest = of_row > largest ? of_row : largest;
      }
      p.partial[item] = largest;
    }
  });
}

void abs_max_join(const AbsMaxJoinParams& p, uint32_t, uint32_t) {
  uint32_t largest = 0;
  for (size_t i = 0; i < p.num_partial; ++i) largest = p.partial[i] > largest ? p.partial[i] : largest;
  *p.amax = float_of(largest);
}

template <class T>
FORETOKEN_SIMD_INLINE void encode_fp8(const T* x, size_t count, float scale, uint8_t* codes) {
  for (size_t i = 0; i < count; ++i) codes[i] = static_cast<uint8_t>(encode_e4m3(value_of(x[i]) / scale));
}

/// 1 where the quotient is 0.
FORETOKEN_SIMD_INLINE float divided_or_one(float amax, float divisor) {
  const float quotient = amax / divisor;
  return quotient == 0.0F ? 1.0F : quotient;
}

void quantize_fp8_row(const QuantizeFp8RowParams& p, uint32_t begin, uint32_t end) {
  with_elements(p.source, [&](const auto* x) {
    for (size_t n = begin; n < end; ++n) {
      const auto* row = x + n * p.source.stride;
      p.scale[n] = divided_or_one(float_of(max_magnitude(row, p.source.num_columns)), kE4M3Max);
      encode_fp8(row, p.source.num_columns, p.scale[n], p.codes + n * p.source.num_columns);
    }
  });
}

/// The strip's tiles: all magnitudes first, then all codes, each row by row.
template <class T>
FORETOKEN_SIMD_INLINE void quantize_strip(const QuantizeFp8BlockParams& p, const T* x, size_t band, size_t first_column) {
  constexpr size_t kTiles = kFp8StripColumns / kTile;
  const size_t num_columns = p.source.num_columns;
  const size_t strip_end = smaller(first_column + kFp8StripColumns, num_columns);
  const size_t first_row = band * kTile;
  const size_t last_row = smaller(first_row + kTile, p.source.num_rows);
  const size_t num_tiles = (strip_end - first_column + kTile - 1) / kTile;
  uint32_t largest[kTiles] = {};
  for (size_t n = first_row; n < last_row; ++n) {
    for (size_t tile = 0; tile < num_tiles; ++tile) {
      const size_t k = first_column + tile * kTile;
      const uint32_t of_row = max_magnitude(x + n * p.source.stride + k, smaller(kTile, strip_end - k));
      largest[tile] = of_row > largest[tile] ? of_row : largest[tile];
    }
  }
  float scale[kTiles];
  const size_t first_scale = band * ((num_columns + kTile - 1) / kTile) + first_column / kTile;
  for (size_t tile = 0; tile < num_tiles; ++tile) {
    const float quotient = float_of(largest[tile]) / kE4M3Max;
    scale[tile] = quotient < kSmallestBlockScale ? kSmallestBlockScale : quotient;
    if (p.scale_is_bf16) {
      static_cast<uint16_t*>(p.scale)[first_scale + tile] = encode_bf16(scale[tile]);
    } else {
      static_cast<float*>(p.scale)[first_scale + tile] = scale[tile];
    }
  }
  for (size_t n = first_row; n < last_row; ++n) {
    for (size_t tile = 0; tile < num_tiles; ++tile) {
      const size_t k = first_column + tile * kTile;
      encode_fp8(x + n * p.source.stride + k, smaller(kTile, strip_end - k), scale[tile], p.codes + n * num_columns + k);
    }
  }
}

void quantize_fp8_block(const QuantizeFp8BlockParams& p, uint32_t begin, uint32_t end) {
  const size_t num_strips = (p.source.num_columns + kFp8StripColumns - 1) / kFp8StripColumns;
  with_elements(p.source, [&](const auto* x) {
    for (size_t item = begin; item < end; ++item) {
      quantize_strip(p, x, item / num_strips, item % num_strips * kFp8StripColumns);
    }
  });
}

/// Weighted squared error of a group, folded by halves. Dividing by 0 does no harm: whatever the quotients, e = x.
FORETOKEN_SIMD_INLINE float nvfp4_error(const float* x, const float* column_weight, float divisor) {
  static_assert(kGroup == kLanes);
  float terms[kGroup];
  for (size_t i = 0; i < kGroup; ++i) {
    const float e = __builtin_fmaf(-round_to_e2m1(x[i] / divisor), divisor, x[i]);
    terms[i] = column_weight[i] * e * e;
  }
  return reduce_add(F32x16::load(terms));
}

/// The scale code near `plain` with the smallest error.
template <class T>
FORETOKEN_SIMD_INLINE uint32_t best_nvfp4_scale(const T* x, const float* column_weight, float global_scale, uint32_t plain) {
  if (plain == kE4M3Nan) return plain;
  float values[kGroup];
  for (size_t i = 0; i < kGroup; ++i) values[i] = value_of(x[i]);
  const auto error = [&](uint32_t code) { return nvfp4_error(values, column_weight, decode_e4m3(code) * global_scale); };
  uint32_t best = plain;
  float least = error(plain);
  for (const int32_t step : kNvfp4ScaleSteps) {
    const int32_t code = static_cast<int32_t>(plain) + step;
    const auto candidate = static_cast<uint32_t>(code < 0 ? 0 : code > kE4M3LastCode ? kE4M3LastCode : code);
    const float of_candidate = error(candidate);
    if (of_candidate < least) {
      least = of_candidate;
      best = candidate;
    }
  }
  return best;
}

/// Sixteen groups at most: their scales, and what a value is divided by. `column_weight` may be null.
template <class T>
FORETOKEN_SIMD_INLINE void nvfp4_scales(const T* x, const float* column_weight, size_t num_groups, float global_scale,
                                        uint8_t* scale, float* divisor) {
  uint32_t largest[kLanes] = {};
  for (size_t g = 0; g < num_groups; ++g) largest[g] = max_magnitude(x + g * kGroup, kGroup);
  uint8_t codes[kLanes];
  for (size_t g = 0; g < kLanes; ++g) {
    codes[g] = static_cast<uint8_t>(encode_e4m3(float_of(largest[g]) / (kE2M1Max * global_scale)));
  }
  for (size_t g = 0; column_weight != nullptr && g < num_groups; ++g) {
    const float* weights = column_weight + g * kGroup;
    codes[g] = static_cast<uint8_t>(best_nvfp4_scale(x + g * kGroup, weights, global_scale, codes[g]));
  }
  for (size_t g = 0; g < kLanes; ++g) divisor[g] = decode_e4m3(codes[g]) * global_scale;
  std::memcpy(scale, codes, num_groups);
}

template <class T>
FORETOKEN_SIMD_INLINE void encode_nvfp4(const T* x, float divisor, uint8_t* codes) {
  uint32_t nibbles[kGroup];
  if (divisor == 0.0F) {
    for (uint32_t& nibble : nibbles) nibble = 0;
  } else {
    for (size_t i = 0; i < kGroup; ++i) nibbles[i] = encode_e2m1(value_of(x[i]) / divisor);
  }
  for (size_t i = 0; i < kGroup / 2; ++i) codes[i] = static_cast<uint8_t>(nibbles[2 * i] | nibbles[2 * i + 1] << 4);
}

void quantize_nvfp4(const QuantizeNvfp4Params& p, uint32_t begin, uint32_t end) {
  const float global_scale = divided_or_one(*p.amax, kE4M3Max * kE2M1Max);
  if (begin == 0) *p.global_scale = global_scale;
  const size_t num_groups = p.source.num_columns / kGroup;
  with_elements(p.source, [&](const auto* x) {
    for (size_t n = begin; n < end; ++n) {
      for (size_t first = 0; first < num_groups; first += kLanes) {
        const size_t count = smaller(kLanes, num_groups - first);
        const auto* groups = x + n * p.source.stride + first * kGroup;
        const float* column_weight = p.column_weight == nullptr ? nullptr : p.column_weight + first * kGroup;
        float divisor[kLanes];
        nvfp4_scales(groups, column_weight, count, global_scale, p.scale + n * num_groups + first, divisor);
        uint8_t* codes = p.codes + (n * num_groups + first) * (kGroup / 2);
        for (size_t g = 0; g < count; ++g) encode_nvfp4(groups + g * kGroup, divisor[g], codes + g * (kGroup / 2));
      }
    }
  });
}

FORETOKEN_SIMD_INLINE void store_value(float value, float* out) { *out = value; }
FORETOKEN_SIMD_INLINE void store_value(float value, uint16_t* out) { *out = encode_bf16(value); }

FORETOKEN_SIMD_INLINE float scale_at(const DequantizeParams& p, size_t index) {
  return p.scale_is_bf16 ? value_of(static_cast<const uint16_t*>(p.scale)[index]) : static_cast<const float*>(p.scale)[index];
}

FORETOKEN_SIMD_INLINE void store_lanes(F32x16 values, float* out) { values.store(out); }
FORETOKEN_SIMD_INLINE void store_lanes(F32x16 values, uint16_t* out) { store_bf16(values, out); }  // NaN codes give quiet NaNs

template <class Out>
FORETOKEN_SIMD_INLINE void dequantize_fp8(const uint8_t* codes, size_t count, float scale, Out* out) {
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const F32x16 values = load_e4m3_or_nan(codes + i) * F32x16::broadcast(kE4M3Unit);
    store_lanes(values * F32x16::broadcast(scale), out + i);
  }
  for (; i < count; ++i) store_value(decode_e4m3(codes[i]) * scale, out + i);
}

template <class Out>
FORETOKEN_SIMD_INLINE void dequantize_nvfp4(const DequantizeParams& p, size_t n, float global_scale, Out* out) {
  const size_t num_groups = p.num_columns / kGroup;
  const uint8_t* scale = static_cast<const uint8_t*>(p.scale) + n * num_groups;
  const uint8_t* codes = static_cast<const uint8_t*>(p.codes) + n * p.num_columns / 2;
  for (size_t g = 0; g < num_groups; ++g) {
    const float s = decode_e4m3(scale[g]);
    uint64_t pairs;
    __builtin_memcpy(&pairs, codes + g * (kGroup / 2), sizeof(pairs));
    for (size_t i = 0; i < kGroup; ++i) {
      store_value(decode_e2m1(static_cast<uint32_t>(pairs >> 4 * i) & 0xfU) * s * global_scale, out + g * kGroup + i);
    }
  }
}

/// What all of row n is multiplied by: 1 where there is no such scale.
FORETOKEN_SIMD_INLINE float scale_of_row(const DequantizeParams& p, size_t n) {
  if (p.format == WeightFormat::kFp8Row) return scale_at(p, p.one_scale ? 0 : n);
  return p.format == WeightFormat::kNvfp4 ? p.global_scale[n / p.rows_per_global_scale] : 1.0F;
}

template <class Out>
FORETOKEN_SIMD_INLINE void dequantize_row(const DequantizeParams& p, size_t n, float row_scale, Out* out) {
  const size_t first = n * p.num_columns;
  switch (p.format) {
    case WeightFormat::kF32:
      for (size_t k = 0; k < p.num_columns; ++k) store_value(static_cast<const float*>(p.codes)[first + k], out + k);
      return;
    case WeightFormat::kBF16:
      for (size_t k = 0; k < p.num_columns; ++k) store_value(value_of(static_cast<const uint16_t*>(p.codes)[first + k]), out + k);
      return;
    case WeightFormat::kFp8Row:
      dequantize_fp8(static_cast<const uint8_t*>(p.codes) + first, p.num_columns, row_scale, out);
      return;
    case WeightFormat::kFp8Block:
      for (size_t k = 0; k < p.num_columns; k += kTile) {
        const size_t scale_row = n / p.block_rows * ((p.num_columns + kTile - 1) / kTile);
        dequantize_fp8(static_cast<const uint8_t*>(p.codes) + first + k, smaller(kTile, p.num_columns - k),
                       scale_at(p, scale_row + k / kTile), out + k);
      }
      return;
    case WeightFormat::kNvfp4: dequantize_nvfp4(p, n, row_scale, out); return;
  }
}

void dequantize(const DequantizeParams& p, uint32_t begin, uint32_t end) {
  for (size_t item = begin; item < end; ++item) {
    const size_t n = p.first_row + item;
    float row_scale = scale_of_row(p, n);
    if (p.row_scale != nullptr) {
      p.row_scale[item] = row_scale;
      row_scale = 1.0F;
    }
    if (p.out_is_bf16) {
      dequantize_row(p, n, row_scale, static_cast<uint16_t*>(p.out) + item * p.num_columns);
    } else {
      dequantize_row(p, n, row_scale, static_cast<float*>(p.out) + item * p.num_columns);
    }
  }
}

constexpr KernelEntry kEntries[] = {
    kernel_entry<AbsMaxParams, abs_max>("abs_max"),
    kernel_entry<AbsMaxJoinParams, abs_max_join>("abs_max_join"),
    kernel_entry<QuantizeFp8RowParams, quantize_fp8_row>("quantize_fp8_row"),
    kernel_entry<QuantizeFp8BlockParams, quantize_fp8_block>("quantize_fp8_block"),
    kernel_entry<QuantizeNvfp4Params, quantize_nvfp4>("quantize_nvfp4"),
    kernel_entry<DequantizeParams, dequantize>("dequantize"),
};

}  // namespace

void add_quantize_kernels(std::vector<KernelEntry>& list) { append(list, kEntries); }

}  // namespace foretoken::cpu::FORETOKEN_CPU_ISA
