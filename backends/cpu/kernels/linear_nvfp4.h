// Weights in NVFP4 for the dot product of linear_tile.h: E2M1 codes, two to a byte, with an E4M3 scale for each group of sixteen
// columns and a float32 scale for many rows. The row scale holds the latter and what decoding leaves out.
#pragma once

#include "backends/cpu/kernels/e4m3.h"
#include "backends/cpu/kernels/linear_digits.h"
#include "backends/cpu/kernels/linear_tile.h"

#if defined(__AVX2__)

namespace foretoken::cpu::FORETOKEN_CPU_ISA {

inline constexpr size_t kGroup = 16;

#if defined(__AVX512VNNI__) && defined(__AVX512VBMI__)

/// A block is sixteen groups, and a lane is one of them. Codes become the bytes that digits are multiplied with by one look-up.
struct Nvfp4Row {
  static constexpr size_t kBlock = Digits::kBlock;
  static constexpr size_t kBlockBytes = kBlock / 2;
  static constexpr size_t kBlockScaleBytes = kBlock / kGroup;
  static constexpr bool kHasBlockScales = false;  // of spans
  static constexpr bool kHasRowScale = true;
  static constexpr bool kTakesDigits = true;
  static constexpr float kUnit = kE4M3Unit / 2.0F;  // of scales and doubled codes

  const uint8_t* codes;
  const uint8_t* scales;
  float row_scale;

  template <bool kFull>
  class Block {
   public:
    FORETOKEN_SIMD_INLINE void open(const Nvfp4Row& row, size_t k, size_t count) {
      const uint8_t* from = row.codes + k / 2;
      const __m512i low = load(from, 0, count);
      const __m512i high = load(from, kBlock / 2, count);
      const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
      const __m512i first = _mm512_permutex2var_epi32(low, even, high);  // halves of groups
      const __m512i second = _mm512_permutex2var_epi32(low, _mm512_add_epi32(even, _mm512_set1_epi32(1)), high);
      weights_[0] = decode(first);
      weights_[1] = decode(_mm512_srli_epi16(first, 4));
      weights_[2] = decode(second);
      weights_[3] = decode(_mm512_srli_epi16(second, 4));
      const uint8_t* of_groups = row.scales + k / kGroup;
      scale_ = kFull ? load_e4m3(of_groups) : load_partial_e4m3(of_groups, count / kGroup);
    }
    template <size_t kPart>
    FORETOKEN_SIMD_INLINE __m512i weights() const {
      return weights_[kPart];
    }
    FORETOKEN_SIMD_INLINE F32x16 scale() const { return scale_; }

   private:
    /// The 128 columns from `first` on.
    static FORETOKEN_SIMD_INLINE __m512i load(const uint8_t* codes, size_t first, size_t count) {
      if (kFull || first + kBlock / 2 <= count) return _mm512_loadu_si512(codes + first / 2);
      if (first >= count) return _mm512_setzero_si512();  // as in ConsecutivePieces
      return _mm512_maskz_loadu_epi8((uint64_t{1} << (count - first) / 2) - 1, codes + first / 2);
    }
    /// Twice the value of the code in the low half of each byte, plus what makes it positive. A look-up sees two bits of the high
    /// half as well, so the table repeats itself.
    static FORETOKEN_SIMD_INLINE __m512i decode(__m512i codes) {
      const __m128i doubled = _mm_setr_epi8(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12);
      const __m128i table = _mm_add_epi8(doubled, _mm_set1_epi8(Digits::kWeightOffset));
      return _mm512_permutexvar_epi8(codes, _mm512_broadcast_i32x4(table));
    }

    __m512i weights_[Digits::kParts];
    F32x16 scale_;
  };
};
using Nvfp4Pieces = Digits;

#elif defined(__AVX512F__)

/// A span is 128 columns, sixteen 32-bit words of eight codes. Piece j has code j of every word: one shift and one look-up, and
/// the eight scales of the span serve all its pieces. A block is two spans, so that sixteen scales are decoded at once.
struct Nvfp4Row {
  static constexpr size_t kBlock = 256;
  static constexpr size_t kSpan = 128;
  static constexpr size_t kBlockBytes = kBlock / 2;
  static constexpr size_t kBlockScaleBytes = kBlock / kGroup;
  static constexpr bool kHasBlockScales = true;
  static constexpr bool kHasRowScale = true;
  static constexpr bool kTakesDigits = false;
  static constexpr float kUnit = kE4M3Unit;  // of the scales

  const uint8_t* codes;
  const uint8_t* scales;
  float row_scale;

  template <bool kFull>
  class Block {
   public:
    FORETOKEN_SIMD_INLINE void open(const Nvfp4Row& row, size_t k, size_t count) {
      codes_ = row.codes + k / 2;
      count_ = count;
      const uint8_t* of_groups = row.scales + k / kGroup;
      scales_ = kFull ? load_e4m3(of_groups) : load_partial_e4m3(of_groups, count / kGroup);
    }
    template <size_t kPiece>
    FORETOKEN_SIMD_INLINE F32x16 piece() const {
      constexpr size_t kFirst = kPiece / 8 * kSpan;
      if constexpr (kFull) return decode<kPiece % 8>(_mm512_loadu_si512(codes_ + kFirst / 2));
      if (kFirst >= count_) return F32x16::zero();  // as in ConsecutivePieces
      const size_t words = smaller(kSpan, count_ - kFirst) / 8;
      return decode<kPiece % 8>(_mm512_maskz_loadu_epi32(static_cast<__mmask16>((1U << words) - 1U), codes_ + kFirst / 2));
    }
    template <size_t kIndex>
    FORETOKEN_SIMD_INLINE F32x16 scale() const {
      const __m512i twice = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);  // a group is two words
      return {_mm512_permutexvar_ps(_mm512_add_epi32(twice, _mm512_set1_epi32(8 * kIndex)), scales_.v)};
    }

   private:
    template <size_t kPiece>
    static FORETOKEN_SIMD_INLINE F32x16 decode(__m512i words) {
      const __m512 values =
          _mm512_setr_ps(0.0F, 0.5F, 1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 6.0F, -0.0F, -0.5F, -1.0F, -1.5F, -2.0F, -3.0F, -4.0F, -6.0F);
      return {_mm512_permutexvar_ps(_mm512_srli_epi32(words, 4 * kPiece), values)};  // looks at the low four bits
    }

    const uint8_t* codes_;
    size_t count_;
    F32x16 scales_;
  };
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
  static constexpr bool kTakesDigits = false;
  static constexpr float kUnit = kE4M3Unit / 2.0F;

  const uint8_t* codes;
  const uint8_t* scales;
  float row_scale;

  template <bool kFull>
  class Block {
   public:
    FORETOKEN_SIMD_INLINE void open(const Nvfp4Row& row, size_t k, size_t) {
      codes_ = row.codes + k / 2;
      scales_ = row.scales + k / kGroup;
    }
    /// A block that is not full has one group only.
    template <size_t kPiece>
    FORETOKEN_SIMD_INLINE F32x16 piece() const {
      if constexpr (!kFull && kPiece == 1) return F32x16::zero();
      const auto* bytes_at = reinterpret_cast<const __m128i*>(codes_);
      const __m128i bytes = kFull ? _mm_loadu_si128(bytes_at) : _mm_loadl_epi64(bytes_at);
      const __m128i even = _mm_and_si128(bytes, _mm_set1_epi8(15));
      const __m128i odd = _mm_and_si128(_mm_srli_epi16(bytes, 4), _mm_set1_epi8(15));
      return scaled(kPiece == 1 ? _mm_unpackhi_epi8(even, odd) : _mm_unpacklo_epi8(even, odd), scales_[kPiece]);
    }

   private:
    static FORETOKEN_SIMD_INLINE F32x16 scaled(__m128i codes_in_bytes, uint8_t scale) {
      const __m128i values = _mm_setr_epi8(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12);
      const __m128i twice = _mm_shuffle_epi8(values, codes_in_bytes);
      const F32x16 lanes{_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(twice)),
                         _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(twice, 8)))};
      return lanes * F32x16::broadcast(kE4M3Table.values[scale]);
    }

    const uint8_t* codes_;
    const uint8_t* scales_;
  };
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
