// E4M3 codes to float32, sixteen at a time. A code moved into the high bits of an FP16 (sign, exponent, mantissa end where they
// should) is its value times 2^-8, subnormals included, so the hardware's FP16 conversion decodes it without a special case.
#pragma once

#include "backends/cpu/kernels/simd.h"

namespace foretoken::cpu::FORETOKEN_CPU_ISA {

/// What decoded codes must be multiplied by.
inline constexpr float kE4M3Unit = 256.0F;

/// Every code's value / kE4M3Unit. The two NaN codes count as numbers.
struct E4M3Table {
  float values[256] = {};
  constexpr E4M3Table() {
    for (int code = 0; code < 256; ++code) {
      const int exponent = code >> 3 & 15;
      float value = static_cast<float>(exponent > 0 ? 8 + code % 8 : code % 8) / 8.0F / 64.0F / kE4M3Unit;
      for (int e = 1; e < exponent; ++e) value *= 2.0F;
      values[code] = code < 128 ? value : -value;
    }
  }
};
inline constexpr E4M3Table kE4M3Table;

#if defined(__AVX2__)

/// FP16 of sixteen codes.
FORETOKEN_SIMD_INLINE __m256i e4m3_to_fp16(__m128i codes) {
  const __m256i moved = _mm256_slli_epi16(_mm256_cvtepi8_epi16(codes), 7);
  return _mm256_and_si256(moved, _mm256_set1_epi16(static_cast<short>(0xbfff)));  // the sign's copy below it goes
}

#endif

#if defined(__AVX512F__)

FORETOKEN_SIMD_INLINE F32x16 load_e4m3(const uint8_t* p) {
  return {_mm512_cvtph_ps(e4m3_to_fp16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))))};
}
FORETOKEN_SIMD_INLINE F32x16 load_partial_e4m3(const uint8_t* p, size_t count) {
  const auto mask = static_cast<__mmask16>((1U << count) - 1U);
  return {_mm512_cvtph_ps(e4m3_to_fp16(_mm_maskz_loadu_epi8(mask, p)))};
}
/// FP16 of thirty-two codes, each the upper byte of a word.
FORETOKEN_SIMD_INLINE __m512i e4m3_to_fp16(__m512i words) {
  return _mm512_and_si512(_mm512_srai_epi16(words, 1), _mm512_set1_epi16(static_cast<short>(0xbf80)));
}

#else

#if defined(__AVX2__)
FORETOKEN_SIMD_INLINE F32x16 load_e4m3(const uint8_t* p) {
  const __m256i fp16 = e4m3_to_fp16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  return {_mm256_cvtph_ps(_mm256_castsi256_si128(fp16)), _mm256_cvtph_ps(_mm256_extracti128_si256(fp16, 1))};
}
#else
FORETOKEN_SIMD_INLINE F32x16 load_e4m3(const uint8_t* p) {
  float lanes[kLanes];
  for (size_t i = 0; i < kLanes; ++i) lanes[i] = kE4M3Table.values[p[i]];
  return F32x16::load(lanes);
}
#endif

FORETOKEN_SIMD_INLINE F32x16 load_partial_e4m3(const uint8_t* p, size_t count) {
  uint8_t codes[kLanes] = {};
  std::memcpy(codes, p, count);
  return load_e4m3(codes);
}

#endif

}  // namespace foretoken::cpu::FORETOKEN_CPU_ISA
