// Weights in NVFP4 for the dot product of linear_tile.h: E2M1 codes, two to a byte, with an E4M3 scale for each group of sixteen
// columns and a float32 scale for many rows. The row scale holds the latter and what decoding leaves out.
#pragma once

#include "backends/cpu/kernels/e4m3.h"
#include "backends/cpu/kernels/linear_tile.h"

#if defined(__AVX2__)

namespace foretoken::cpu::FORETOKEN_CPU_ISA {

inline constexpr size_t kGroup = 16;

#if defined(__AVX512F__)

/// A span is 128 columns, sixteen 32-bit words of eight codes. Piece j has code j of every word: one shift and one look-up, and
/// the eight scales of the span serve all its pieces. A block is two spans, so that sixteen scales are decoded at once.
struct Nvfp4Row {
  static constexpr size_t kBlock = 256;
  static constexpr size_t kSpan = 128;
  static constexpr size_t kBlockBytes = kBlock / 2;
  static constexpr size_t kBlockScaleBytes = kBlock / kGroup;
  static constexpr bool kHasBlockScales = true;
  static constexpr bool kHasRowScale = true;
  static constexpr float kUnit = kE4M3Unit;  // of the scales

  const uint8_t* codes;
  const uint8_t* scales;
  float row_scale;

  template <size_t kPiece>
  FORETOKEN_SIMD_INLINE F32x16 load(size_t k) const {
    return decode<kPiece % 8>(_mm512_loadu_si512(codes + k / 2 + kPiece / 8 * 64));
  }
  template <size_t kPiece>
  FORETOKEN_SIMD_INLINE F32x16 load_partial(size_t k, size_t count) const {
    constexpr size_t kFirst = kPiece / 8 * kSpan;
    if (kFirst >= count) return F32x16::zero();  // as in ConsecutivePieces
    const size_t words = smaller(kSpan, count - kFirst) / 8;
    return decode<kPiece % 8>(_mm512_maskz_loadu_epi32(static_cast<__mmask16>((1U << words) - 1U), codes + (k + kFirst) / 2));
  }
  template <bool kFull>
  FORETOKEN_SIMD_INLINE F32x16 block_scales(size_t k, size_t count) const {
    if constexpr (kFull) return load_e4m3(scales + k / kGroup);
    return load_partial_e4m3(scales + k / kGroup, count / kGroup);
  }
  template <size_t kIndex>
  static FORETOKEN_SIMD_INLINE F32x16 span_scale(F32x16 scales) {
    const __m512i twice = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);  // a group is two words
    return {_mm512_permutexvar_ps(_mm512_add_epi32(twice, _mm512_set1_epi32(8 * kIndex)), scales.v)};
  }

 private:
  template <size_t kPiece>
  static FORETOKEN_SIMD_INLINE F32x16 decode(__m512i words) {
    const __m512 values =
        _mm512_setr_ps(0.0F, 0.5F, 1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 6.0F, -0.0F, -0.5F, -1.0F, -1.5F, -2.0F, -3.0F, -4.0F, -6.0F);
    return {_mm512_permutexvar_ps(_mm512_srli_epi32(words, 4 * kPiece), values)};  // looks at the low four bits
  }
};
using Nvfp4Pieces = EighthPieces;

#else

/// A block is two groups; a piece is one, decoded to twice its values and multiplied by its scale.
struct Nvfp4Row {
  static constexpr size_t kBlock = 2 * kGroup;
  static constexpr size_t kBlockBytes = kBlock / 2;
  static constexpr size_t kBlockScaleBytes = kBlock / kGroup;
  static constexpr bool kHasBlockScales = false;
  static constexpr bool kHasRowScale = true;
  static constexpr float kUnit = kE4M3Unit / 2.0F;

  const uint8_t* codes;
  const uint8_t* scales;
  float row_scale;

  template <size_t kPiece>
  FORETOKEN_SIMD_INLINE F32x16 load(size_t k) const {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(codes + k / 2));
    const __m128i even = _mm_and_si128(bytes, _mm_set1_epi8(15));
    const __m128i odd = _mm_and_si128(_mm_srli_epi16(bytes, 4), _mm_set1_epi8(15));
    return scaled(kPiece == 1 ? _mm_unpackhi_epi8(even, odd) : _mm_unpacklo_epi8(even, odd), scales[k / kGroup + kPiece]);
  }
  /// Of a block with one group only.
  template <size_t kPiece>
  FORETOKEN_SIMD_INLINE F32x16 load_partial(size_t k, size_t) const {
    if constexpr (kPiece == 1) return F32x16::zero();
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(codes + k / 2));
    const __m128i even = _mm_and_si128(bytes, _mm_set1_epi8(15));
    const __m128i odd = _mm_and_si128(_mm_srli_epi16(bytes, 4), _mm_set1_epi8(15));
    return scaled(_mm_unpacklo_epi8(even, odd), scales[k / kGroup]);
  }

 private:
  static FORETOKEN_SIMD_INLINE F32x16 scaled(__m128i codes_in_bytes, uint8_t scale) {
    const __m128i values = _mm_setr_epi8(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12);
    const __m128i twice = _mm_shuffle_epi8(values, codes_in_bytes);
    const F32x16 lanes{_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(twice)),
                       _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(twice, 8)))};
    return lanes * F32x16::broadcast(kE4M3Table.values[scale]);
  }
};
using Nvfp4Pieces = ConsecutivePieces;

#endif

class Nvfp4Rows {
 public:
  using Pieces = Nvfp4Pieces;
  using Row = Nvfp4Row;

  Nvfp4Rows(const WeightParams& weight, size_t in_features, size_t matrix = 0)
      : codes_(pointer<const uint8_t>(weight.codes) + matrix * weight.rows * (in_features / 2)),
        scales_(pointer<const uint8_t>(weight.scale) + matrix * weight.rows * (in_features / kGroup)),
        global_scales_(pointer<const float>(weight.global_scale) + matrix * (weight.rows / weight.rows_per_scale)),
        in_features_(in_features),
        rows_per_global_scale_(weight.rows_per_scale) {}
  FORETOKEN_SIMD_INLINE Row row(size_t n) const {
    const uint32_t group = n < rows_per_global_scale_ ? 0 : static_cast<uint32_t>(n) / rows_per_global_scale_;
    return {codes_ + n * (in_features_ / 2), scales_ + n * (in_features_ / kGroup), Row::kUnit * global_scales_[group]};
  }
  FORETOKEN_SIMD_INLINE RowAddress address_of(size_t n) const {
    return {reinterpret_cast<uintptr_t>(codes_) + n * (in_features_ / 2),
            reinterpret_cast<uintptr_t>(scales_) + n * (in_features_ / kGroup)};
  }

 private:
  const uint8_t* codes_;
  const uint8_t* scales_;
  const float* global_scales_;
  size_t in_features_;
  uint32_t rows_per_global_scale_;
};

}  // namespace foretoken::cpu::FORETOKEN_CPU_ISA

#endif
