// BF16 operands of tiles, as vectors make them.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "backends/cpu/kernels/prefill_amx_params.h"
#include "backends/cpu/kernels/simd.h"

namespace foretoken::cpu::FORETOKEN_CPU_ISA {

/// What a tile loads, sixteen cache lines in a row. As first operand of a product: sixteen rows of 32 elements; as second,
/// "packed": sixteen pairs of rows, side by side, of sixteen columns.
using TileLines = uint16_t[kAmxTile][kAmxDepth];
inline constexpr size_t kLineBytes = 64;

/// BF16 of each lane in the upper half of its word, NaN included; the lower half is garbage.
FORETOKEN_SIMD_INLINE __m512i rounded_words(F32x16 a) {
  const __m512i bits = _mm512_castps_si512(a.v);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i rounded = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
  return _mm512_mask_set1_epi32(rounded, _mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q), 0x7fc00000);
}

/// The upper halves of two vectors of words, side by side.
FORETOKEN_SIMD_INLINE __m512i pair_words(__m512i even, __m512i odd) {
  constexpr __mmask32 kOdd = 0xaaaaaaaaU;
  return _mm512_mask_mov_epi16(_mm512_srli_epi32(even, 16), kOdd, odd);
}

}  // namespace foretoken::cpu::FORETOKEN_CPU_ISA
