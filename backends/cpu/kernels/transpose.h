// Transposing sixteen by sixteen 32-bit elements in registers.
#pragma once

#include "backends/cpu/kernels/simd.h"

#if defined(__AVX512F__)

namespace foretoken::cpu::FORETOKEN_CPU_ISA {

/// tile[i] lane j becomes tile[j] lane i.
FORETOKEN_SIMD_INLINE void transpose(__m512* tile) {
  __m512 t[kLanes];
#pragma GCC unroll 8
  for (size_t i = 0; i < kLanes; i += 2) {
    t[i] = _mm512_unpacklo_ps(tile[i], tile[i + 1]);
    t[i + 1] = _mm512_unpackhi_ps(tile[i], tile[i + 1]);
  }
  const auto low = [](__m512 a, __m512 b) {
    return _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(a), _mm512_castps_pd(b)));
  };
  const auto high = [](__m512 a, __m512 b) {
    return _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(a), _mm512_castps_pd(b)));
  };
  // Quarter q of tile[4 i + j] then holds column 4 q + j of rows 4 i .. 4 i + 3.
#pragma GCC unroll 4
  for (size_t i = 0; i < kLanes; i += 4) {
    tile[i] = low(t[i], t[i + 2]);
    tile[i + 1] = high(t[i], t[i + 2]);
    tile[i + 2] = low(t[i + 1], t[i + 3]);
    tile[i + 3] = high(t[i + 1], t[i + 3]);
  }
#pragma GCC unroll 4
  for (size_t j = 0; j < 4; ++j) {
    const __m512 even_top = _mm512_shuffle_f32x4(tile[j], tile[4 + j], 0x88);
    const __m512 odd_top = _mm512_shuffle_f32x4(tile[j], tile[4 + j], 0xdd);
    const __m512 even_bottom = _mm512_shuffle_f32x4(tile[8 + j], tile[12 + j], 0x88);
    const __m512 odd_bottom = _mm512_shuffle_f32x4(tile[8 + j], tile[12 + j], 0xdd);
    tile[j] = _mm512_shuffle_f32x4(even_top, even_bottom, 0x88);
    tile[8 + j] = _mm512_shuffle_f32x4(even_top, even_bottom, 0xdd);
    tile[4 + j] = _mm512_shuffle_f32x4(odd_top, odd_bottom, 0x88);
    tile[12 + j] = _mm512_shuffle_f32x4(odd_top, odd_bottom, 0xdd);
  }
}

}  // namespace foretoken::cpu::FORETOKEN_CPU_ISA

#endif
