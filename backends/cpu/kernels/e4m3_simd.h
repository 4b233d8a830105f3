// E4M3 codes to float32 lanes and back, as core/dtype.h defines them. Decoding goes through FP16: the bits of a code, moved to
// those of an FP16 number with the same fraction, mean 2^-8 times its value.
#pragma once

#include "backends/cpu/kernels/simd.h"

namespace foretoken::cpu::FORETOKEN_CPU_ISA {

/// What load_e4m3 leaves for the caller's scale.
inline constexpr float kE4M3Factor = 256.0F;

#if defined(__AVX2__)

/// FP16 numbers of the value times 2^-8; NaN codes give NaN.
FORETOKEN_SIMD_INLINE __m256i e4m3_to_f16(__m128i codes) {
  const __m256i high = _mm256_slli_epi16(_mm256_cvtepu8_epi16(codes), 8);
  const __m256i moved = _mm256_and_si256(_mm256_srai_epi16(high, 1), _mm256_set1_epi16(static_cast<short>(0xbfff)));
  const __m256i is_nan =
      _mm256_cmpeq_epi16(_mm256_and_si256(high, _mm256_set1_epi16(0x7f00)), _mm256_set1_epi16(static_cast<short>(0x7f00)));
  return _mm256_or_si256(moved, _mm256_and_si256(is_nan, _mm256_set1_epi16(0x7e00)));
}

/// Sixteen codes: value / kE4M3Factor, exactly.
FORETOKEN_SIMD_INLINE F32x16 load_e4m3(const uint8_t* codes) {
  const __m256i halves = e4m3_to_f16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(codes)));
#if defined(__AVX512F__)
  return {_mm512_cvtph_ps(halves)};
#else
  return {_mm256_cvtph_ps(_mm256_castsi256_si128(halves)), _mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1))};
#endif
}

#else

FORETOKEN_SIMD_INLINE F32x16 load_e4m3(const uint8_t* codes) {
  constexpr uint32_t kExponentShift = (127U - 7U - 8U) << 23;
  constexpr float kSubnormalUnit = 0x1p-17F;
  uint32_t bits[kLanes];
  for (size_t i = 0; i < kLanes; ++i) {
    const uint32_t magnitude = codes[i] & 0x7fU;
    const float small = static_cast<float>(magnitude) * kSubnormalUnit;
    uint32_t value;
    std::memcpy(&value, &small, sizeof(value));
    if (magnitude >= 8) value = (magnitude << 20) + kExponentShift;
    if (magnitude == 0x7f) value = 0x7fc00000U;
    bits[i] = value | (codes[i] & 0x80U) << 24;
  }
  F32x16 lanes;
  std::memcpy(&lanes.v, bits, sizeof(bits));
  return lanes;
}

#endif

/// The first `count` (0..16) codes; the other lanes are 0.
FORETOKEN_SIMD_INLINE F32x16 load_partial_e4m3(const uint8_t* codes, size_t count) {
  uint8_t lanes[kLanes] = {};
  std::memcpy(lanes, codes, count);
  return load_e4m3(lanes);
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
