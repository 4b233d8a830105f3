// Dot products in integers, for weights that are small integers times a scale for each group of sixteen columns. Activations
// become integers times a power of two for each group, with an error of at most 2^-23 of the group's largest, and these three
// digits of a byte each. The products of a group and their sum are exact; then each group takes one float32 multiply-add. Needs
// AVX512_VNNI.
#pragma once

#include "backends/cpu/kernels/linear_pieces.h"
#include "backends/cpu/kernels/transpose.h"

#if defined(__AVX512VNNI__)

namespace foretoken::cpu::FORETOKEN_CPU_ISA {

/// Sums of an arranged block of activations.
struct ArrangedDigits;

/// A block is sixteen groups, and a lane is one of them. Arranged: part 2 h + p of digit d (0: the lowest) has in byte b of a
/// lane that digit of the group's column 8 h + 2 b + p, which is the order of four-bit codes; then come, for each lane, what the
/// offset of the weights adds to the sum, negated, and the power of two.
struct Digits {
  using Arranged = ArrangedDigits;
  static constexpr size_t kBlock = 256;
  static constexpr size_t kNumDigits = 3;
  static constexpr size_t kParts = 4;
  /// Weights are unsigned bytes, this much too large.
  static constexpr int kWeightOffset = 12;
  // Places in an arranged block, in floats.
  static constexpr size_t kOffsetAt = kNumDigits * kParts * kLanes;
  static constexpr size_t kPowerAt = kOffsetAt + kLanes;
  static_assert(kPowerAt + kLanes <= kBlock);

  /// A group with an infinity counts the infinite elements alone, so sums become infinite, or NaN where such an element meets a
  /// weight of 0; NaN makes all of them NaN.
  template <size_t kBlockOfRow>
  static FORETOKEN_SIMD_INLINE void arrange_block(const float* x, size_t count, float* arranged) {
    static_assert(kBlockOfRow == kBlock);
    __m512 columns[kLanes];  // column j of each group
    for (size_t g = 0; g < kLanes; ++g) {
      const size_t first = smaller(g * kLanes, count);
      columns[g] = first < count ? F32x16::load_partial(x + first, smaller(kLanes, count - first)).v : _mm512_setzero_ps();
    }
    transpose(columns);
    const __m512i largest = largest_magnitudes(columns);
    const __mmask16 is_infinite = _mm512_cmpge_epu32_mask(largest, _mm512_set1_epi32(kInfinity));
    if (is_infinite != 0) keep_infinities(columns, is_infinite);
    // The exponent of the largest, or one more where the carries of lower digits would make the third overflow; not so small that
    // a power below would be subnormal.
    const __m512i rounded = _mm512_add_epi32(largest, _mm512_set1_epi32(0x20000));
    const __m512i exponent = _mm512_max_epu32(_mm512_srli_epi32(rounded, 23), _mm512_set1_epi32(kTopBit + 1));
    const __m512i used = _mm512_mask_mov_epi32(exponent, is_infinite, _mm512_set1_epi32(kBias));
    const __m512 up = power_of_two(_mm512_sub_epi32(_mm512_set1_epi32(2 * kBias + kTopBit), used));
    const __m512 down = power_of_two(_mm512_sub_epi32(used, _mm512_set1_epi32(kTopBit)));
    store_integers(columns, up, arranged);
    _mm512_store_ps(arranged + kPowerAt, _mm512_mask_mov_ps(down, is_infinite, _mm512_castsi512_ps(largest)));
  }

  /// As ArrangedDigits does, of activations as they come.
  template <size_t kCols, class Block>
  static FORETOKEN_SIMD_INLINE void add_products(const float* x, size_t count, const Block* blocks, F32x16* lanes);

 private:
  static constexpr int kInfinity = 0x7f800000;
  static constexpr int kBias = 127;
  /// The exponent of the largest integer of a group.
  static constexpr int kTopBit = 22;

  static FORETOKEN_SIMD_INLINE __m512 power_of_two(__m512i biased) { return _mm512_castsi512_ps(_mm512_slli_epi32(biased, 23)); }

  /// As bits of floats, so NaN is larger than infinity.
  static FORETOKEN_SIMD_INLINE __m512i largest_magnitudes(const __m512* columns) {
    __m512i largest = _mm512_setzero_si512();
    for (size_t j = 0; j < kLanes; ++j) {
      largest = _mm512_max_epu32(largest, _mm512_castps_si512(_mm512_abs_ps(columns[j])));
    }
    return largest;
  }
  /// In the lanes of `mask`: infinities become 1 of their sign, everything else 0.
  static void keep_infinities(__m512* columns, __mmask16 mask) {
    for (size_t j = 0; j < kLanes; ++j) {
      const __mmask16 is_infinity =
          _mm512_cmpeq_epi32_mask(_mm512_castps_si512(_mm512_abs_ps(columns[j])), _mm512_set1_epi32(kInfinity));
      const __m512 sign = _mm512_and_ps(columns[j], _mm512_set1_ps(-0.0F));
      columns[j] = _mm512_mask_mov_ps(columns[j], mask, _mm512_maskz_or_ps(is_infinity, sign, _mm512_set1_ps(1.0F)));
    }
  }
  static FORETOKEN_SIMD_INLINE void store_integers(const __m512* columns, __m512 up, float* arranged) {
    const __m512i middle = _mm512_set1_epi32(0x00808080);
    __m512i digits[kLanes];  // from -128 to 127, the lowest in the lowest byte
    __m512i sum = _mm512_setzero_si512();
    for (size_t j = 0; j < kLanes; ++j) {
      const __m512i integer = _mm512_cvtps_epi32(_mm512_mul_ps(columns[j], up));
      sum = _mm512_add_epi32(sum, integer);
      digits[j] = _mm512_xor_si512(_mm512_add_epi32(integer, middle), middle);
    }
    for (size_t part = 0; part < kParts; ++part) store_part(digits + part / 2 * 8 + part % 2, arranged + part * kLanes);
    _mm512_store_si512(arranged + kOffsetAt, _mm512_mullo_epi32(sum, _mm512_set1_epi32(-kWeightOffset)));
  }
  /// Bytes of every second of eight columns: four rows by four bytes of each lane, transposed.
  static FORETOKEN_SIMD_INLINE void store_part(const __m512i* columns, float* part) {
    const __m512i bytes = _mm512_set1_epi32(0x00ff00ff);
    const auto low_bytes = [&](__m512i a, __m512i b) {
      return _mm512_or_si512(_mm512_and_si512(a, bytes), _mm512_slli_epi32(_mm512_and_si512(b, bytes), 8));
    };
    const auto high_bytes = [&](__m512i a, __m512i b) {
      return _mm512_or_si512(_mm512_and_si512(_mm512_srli_epi32(a, 8), bytes), _mm512_andnot_si512(bytes, b));
    };
    const auto low_words = [](__m512i a, __m512i b) { return _mm512_mask_blend_epi16(0xaaaaaaaaU, a, _mm512_slli_epi32(b, 16)); };
    const __m512i top = low_bytes(columns[0], columns[2]);
    const __m512i bottom = low_bytes(columns[4], columns[6]);
    constexpr size_t kStride = kParts * kLanes;
    _mm512_store_si512(part, low_words(top, bottom));
    _mm512_store_si512(part + kStride, low_words(high_bytes(columns[0], columns[2]), high_bytes(columns[4], columns[6])));
    _mm512_store_si512(part + 2 * kStride, _mm512_mask_blend_epi16(0xaaaaaaaaU, _mm512_srli_epi32(top, 16), bottom));
  }
};

struct ArrangedDigits {
  /// lanes[c] += the block times that of column c, whose Block gives part i of its weights as bytes and the scales of its groups.
  template <size_t kCols, class Block>
  static FORETOKEN_SIMD_INLINE void add_products(const float* x, size_t, const Block* blocks, F32x16* lanes) {
    __m512i sums[Digits::kNumDigits][kCols];
#pragma GCC unroll 4
    for (size_t c = 0; c < kCols; ++c) {
      sums[0][c] = _mm512_load_si512(x + Digits::kOffsetAt);
      sums[1][c] = _mm512_setzero_si512();
      sums[2][c] = _mm512_setzero_si512();
    }
    for_each_index<Digits::kParts>([&](auto part) {
#pragma GCC unroll 4
      for (size_t d = 0; d < Digits::kNumDigits; ++d) {
        __m512i digits = _mm512_load_si512(x + (d * Digits::kParts + part) * kLanes);
        asm("" : "+v"(digits));  // or the compiler loads it again for each column, and loads become the bottleneck
#pragma GCC unroll 4
        for (size_t c = 0; c < kCols; ++c) {
          sums[d][c] = _mm512_dpbusd_epi32(sums[d][c], blocks[c].template weights<part>(), digits);
        }
      }
    });
    const F32x16 power = F32x16::load(x + Digits::kPowerAt);
#pragma GCC unroll 4
    for (size_t c = 0; c < kCols; ++c) {
      const __m512i upper = _mm512_add_epi32(_mm512_slli_epi32(sums[2][c], 8), sums[1][c]);
      const __m512i sum = _mm512_add_epi32(_mm512_slli_epi32(upper, 8), sums[0][c]);  // what overflowed on the way is back
      lanes[c] = fma(F32x16{_mm512_cvtepi32_ps(sum)}, blocks[c].scale() * power, lanes[c]);
    }
  }
};

template <size_t kCols, class Block>
FORETOKEN_SIMD_INLINE void Digits::add_products(const float* x, size_t count, const Block* blocks, F32x16* lanes) {
  alignas(64) float arranged[kBlock];
  arrange_block<kBlock>(x, count, arranged);
  ArrangedDigits::add_products<kCols>(arranged, kBlock, blocks, lanes);
}

}  // namespace foretoken::cpu::FORETOKEN_CPU_ISA

#endif
