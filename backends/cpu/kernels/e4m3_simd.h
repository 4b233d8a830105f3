// E4M3 codes of caches, to float32 lanes and back as core/dtype.h defines them: unlike weights, caches may hold NaN.
#pragma once

#include "backends/cpu/kernels/e4m3.h"
#include "backends/cpu/kernels/simd.h"

namespace foretoken::cpu::FORETOKEN_CPU_ISA {

/// Sixteen codes: value / kE4M3Unit, exactly; NaN codes give NaN.
FORETOKEN_SIMD_INLINE F32x16 load_e4m3_or_nan(const uint8_t* codes) {
#if defined(__AVX2__)
  const __m256i numbers = e4m3_to_fp16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(codes)));
  const __m256i magnitudes = _mm256_and_si256(numbers, _mm256_set1_epi16(0x7fff));
  const __m256i is_nan = _mm256_cmpeq_epi16(magnitudes, _mm256_set1_epi16(0x7f << 7));
  const __m256i fp16 = _mm256_or_si256(numbers, _mm256_and_si256(is_nan, _mm256_set1_epi16(0x7e00)));
#if defined(__AVX512F__)
  return {_mm512_cvtph_ps(fp16)};
#else
  return {_mm256_cvtph_ps(_mm256_castsi256_si128(fp16)), _mm256_cvtph_ps(_mm256_extracti128_si256(fp16, 1))};
#endif
#else
  float lanes[kLanes];
  for (size_t i = 0; i < kLanes; ++i) lanes[i] = (codes[i] & 0x7fU) == 0x7fU ? __builtin_nanf("") : kE4M3Table.values[codes[i]];
  return F32x16::load(lanes);
#endif
}

/// The first `count` (0..16) codes; the other lanes are 0.
FORETOKEN_SIMD_INLINE F32x16 load_partial_e4m3_or_nan(const uint8_t* codes, size_t count) {
  uint8_t lanes[kLanes] = {};
  std::memcpy(lanes, codes, count);
  return load_e4m3_or_nan(lanes);
}

/// The nearest code of each lane, ties to even, saturating at 448; a NaN gives the NaN code of its sign.
FORETOKEN_SIMD_INLINE void store_e4m3(F32x16 a, uint8_t* codes) {
  constexpr uint32_t kSmallestNormal = 0x3c800000U;  // 2^-6
  constexpr uint32_t kInfinity = 0x7f800000U;
  // The sum of a subnormal and 2^14 is rounded to multiples of 2^-9, the step of the codes below 2^-6.
  constexpr float kMagic = 16384.0F;
  constexpr uint32_t kMagicBits = 0x46800000U;
  uint32_t bits[kLanes];
  uint32_t magnitudes[kLanes];
  uint32_t sums[kLanes];
  a.store(reinterpret_cast<float*>(bits));
  for (size_t i = 0; i < kLanes; ++i) magnitudes[i] = bits[i] & 0x7fffffffU;
  (F32x16::load(reinterpret_cast<const float*>(magnitudes)) + F32x16::broadcast(kMagic)).store(reinterpret_cast<float*>(sums));
  for (size_t i = 0; i < kLanes; ++i) {
    const uint32_t magnitude = magnitudes[i];
    const uint32_t normal = ((magnitude + 0x7ffffU + (magnitude >> 20 & 1U)) >> 20) - (120U << 3);
    const uint32_t code = magnitude < kSmallestNormal ? sums[i] - kMagicBits : normal;
    const uint32_t saturated = code < 0x7eU ? code : 0x7eU;
    codes[i] = static_cast<uint8_t>((magnitude > kInfinity ? 0x7fU : saturated) | (bits[i] >> 24 & 0x80U));
  }
}

}  // namespace foretoken::cpu::FORETOKEN_CPU_ISA
