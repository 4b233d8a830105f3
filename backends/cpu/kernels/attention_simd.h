// Sums of sixteen vectors at once.
#pragma once

#include "backends/cpu/kernels/simd.h"

namespace foretoken::cpu::FORETOKEN_CPU_ISA {

#if defined(__AVX512F__)

/// Lane i = reduce_add(rows[i]), with the same order of additions.
FORETOKEN_SIMD_INLINE F32x16 reduce_add_each(const F32x16 (&rows)[kLanes]) {
  // Vector `index` of each stage holds rows that the last stage puts in order: lane 4*x + y of the result comes from x + 4*y.
  const auto source = [&rows](size_t index) { return rows[index % 4 * 4 + index / 4].v; };
  __m512 eights[8];
  for (size_t i = 0; i < 8; ++i) {
    const __m512 a = source(2 * i), b = source(2 * i + 1);
    eights[i] = _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xee));
  }
  __m512 fours[4];
  for (size_t i = 0; i < 4; ++i) {
    const __m512 a = eights[2 * i], b = eights[2 * i + 1];
    fours[i] = _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
  }
  __m512 twos[2];
  for (size_t i = 0; i < 2; ++i) {
    const __m512 a = fours[2 * i], b = fours[2 * i + 1];
    twos[i] = _mm512_add_ps(_mm512_shuffle_ps(a, b, 0x44), _mm512_shuffle_ps(a, b, 0xee));
  }
  return {_mm512_add_ps(_mm512_shuffle_ps(twos[0], twos[1], 0x88), _mm512_shuffle_ps(twos[0], twos[1], 0xdd))};
}

#elif defined(__AVX2__)

/// Lanes 0..7 = the sums of the eight vectors, each added as reduce_add does.
FORETOKEN_SIMD_INLINE __m256 reduce_add_eight(const F32x16* rows) {
  // Lane 4*x + y comes from vector y of half x.
  __m256 fours[4];
  for (size_t i = 0; i < 4; ++i) {
    const __m256 a = _mm256_add_ps(rows[i].lo, rows[i].hi);
    const __m256 b = _mm256_add_ps(rows[i + 4].lo, rows[i + 4].hi);
    fours[i] = _mm256_add_ps(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31));
  }
  __m256 twos[2];
  for (size_t i = 0; i < 2; ++i) {
    const __m256 a = fours[2 * i], b = fours[2 * i + 1];
    twos[i] = _mm256_add_ps(_mm256_shuffle_ps(a, b, 0x44), _mm256_shuffle_ps(a, b, 0xee));
  }
  return _mm256_add_ps(_mm256_shuffle_ps(twos[0], twos[1], 0x88), _mm256_shuffle_ps(twos[0], twos[1], 0xdd));
}

FORETOKEN_SIMD_INLINE F32x16 reduce_add_each(const F32x16 (&rows)[kLanes]) {
  return {reduce_add_eight(rows), reduce_add_eight(rows + 8)};
}

#else

FORETOKEN_SIMD_INLINE F32x16 reduce_add_each(const F32x16 (&rows)[kLanes]) {
  float sums[kLanes];
  for (size_t i = 0; i < kLanes; ++i) sums[i] = reduce_add(rows[i]);
  return F32x16::load(sums);
}

#endif

}  // namespace foretoken::cpu::FORETOKEN_CPU_ISA
