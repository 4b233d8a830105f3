// Weights in FP8 (E4M3) for the dot product of linear_tile.h. Codes are decoded to their value times 2^-8, which takes no more
// than FP16 has; the row scale gives the factor back.
#pragma once

#include "backends/cpu/kernels/e4m3.h"
#include "backends/cpu/kernels/linear_tile.h"

namespace foretoken::cpu::FORETOKEN_CPU_ISA {

/// Element `index` of a list of F32 or BF16.
FORETOKEN_SIMD_INLINE float scale_at(const char* list, size_t index, bool is_bf16) {
  uint32_t bits = 0;
  if (is_bf16) {
    uint16_t high = 0;
    __builtin_memcpy(&high, list + index * sizeof(high), sizeof(high));
    bits = static_cast<uint32_t>(high) << 16;
  } else {
    __builtin_memcpy(&bits, list + index * sizeof(bits), sizeof(bits));
  }
  float value = 0.0F;
  __builtin_memcpy(&value, &bits, sizeof(value));
  return value;
}

#if defined(__AVX512F__)

using Fp8Pieces = AlternatePieces;

/// A block of codes as FP16: of each 64 those at even places, then those at odd ones, so that a line is loaded whole and moved
/// apart without shuffles. They pass through memory, for taking the upper half of a register is a shuffle too.
template <size_t kBlock, bool kFull>
class Fp8Block {
 public:
  FORETOKEN_SIMD_INLINE void open(const uint8_t* codes, size_t count) {
#pragma GCC unroll 2
    for (size_t i = 0; i < kBlock; i += kStep) {
      const __m512i words = load(codes, i, count);
      _mm512_store_si512(fp16_ + i, e4m3_to_fp16(_mm512_slli_epi16(words, 8)));
      _mm512_store_si512(fp16_ + i + kStep / 2, e4m3_to_fp16(words));
    }
    asm("" : "+m"(fp16_));  // or the compiler takes halves of registers instead of loading them
  }
  template <size_t kPiece>
  FORETOKEN_SIMD_INLINE F32x16 piece() const {
    constexpr size_t kFirst = kPiece / 4 * kStep + kPiece % 2 * (kStep / 2) + kPiece / 2 % 2 * kLanes;
    return {_mm512_cvtph_ps(_mm256_load_si256(reinterpret_cast<const __m256i*>(fp16_ + kFirst)))};
  }

 private:
  static constexpr size_t kStep = 64;
  static_assert(kBlock % kStep == 0);

  static FORETOKEN_SIMD_INLINE __m512i load(const uint8_t* codes, size_t i, size_t count) {
    if (kFull || i + kStep <= count) return _mm512_loadu_si512(codes + i);
    if (i >= count) return _mm512_setzero_si512();  // as in ConsecutivePieces
    return _mm512_maskz_loadu_epi8((uint64_t{1} << (count - i)) - 1, codes + i);
  }

  alignas(64) uint16_t fp16_[kBlock];
};

#else

using Fp8Pieces = ConsecutivePieces;

/// Pieces of sixteen consecutive codes.
template <size_t kBlock, bool kFull>
class Fp8Block {
 public:
  FORETOKEN_SIMD_INLINE void open(const uint8_t* codes, size_t count) {
    codes_ = codes;
    count_ = count;
  }
  template <size_t kPiece>
  FORETOKEN_SIMD_INLINE F32x16 piece() const {
    constexpr size_t kFirst = kPiece * kLanes;
    if constexpr (kFull) return load_e4m3(codes_ + kFirst);
    if (kFirst >= count_) return F32x16::zero();  // as in ConsecutivePieces
    return load_partial_e4m3(codes_ + kFirst, smaller(kLanes, count_ - kFirst));
  }

 private:
  const uint8_t* codes_;
  size_t count_;
};

#endif

/// What the two kinds of FP8 have in common: where codes and scales of one matrix begin.
class Fp8Matrix {
 public:
  using Pieces = Fp8Pieces;

  /// `scales_per_row`: scales along K.
  Fp8Matrix(const WeightParams& weight, size_t in_features, size_t scales_per_row, size_t matrix)
      : codes_(pointer<const uint8_t>(weight.codes) + matrix * weight.rows * in_features),
        in_features_(in_features),
        log2_rows_per_scale_(static_cast<size_t>(__builtin_ctz(weight.rows_per_scale))),
        scale_bytes_(scales_per_row * (weight.scale_is_bf16 != 0 ? sizeof(uint16_t) : sizeof(float))),
        scale_is_bf16_(weight.scale_is_bf16 != 0) {
    const size_t scale_rows = ((size_t{weight.rows} - 1) >> log2_rows_per_scale_) + 1;
    scales_ = pointer<const char>(weight.scale) + matrix * scale_rows * scale_bytes_;
  }
  /// Scales are few; nobody prefetches them.
  FORETOKEN_SIMD_INLINE RowAddress address_of(size_t n) const {
    return {reinterpret_cast<uintptr_t>(codes_) + n * in_features_, 0};
  }

 protected:
  FORETOKEN_SIMD_INLINE const uint8_t* codes(size_t n) const { return codes_ + n * in_features_; }
  /// The scales of row n.
  FORETOKEN_SIMD_INLINE const char* scales(size_t n) const { return scales_ + (n >> log2_rows_per_scale_) * scale_bytes_; }
  FORETOKEN_SIMD_INLINE bool scale_is_bf16() const { return scale_is_bf16_; }

 private:
  const uint8_t* codes_;
  const char* scales_;
  size_t in_features_;
  size_t log2_rows_per_scale_;
  size_t scale_bytes_;
  bool scale_is_bf16_;
};

/// FP8 with a scale for each row.
class Fp8RowRows : public Fp8Matrix {
 public:
  struct Row {
    static constexpr size_t kBlock = 4 * kLanes;
    static constexpr size_t kBlockBytes = kBlock;
    static constexpr size_t kBlockScaleBytes = 0;
    static constexpr bool kHasBlockScales = false;
    static constexpr bool kHasRowScale = true;
    static constexpr bool kTakesDigits = false;
    const uint8_t* codes;
    float row_scale;

    template <bool kFull>
    class Block : public Fp8Block<kBlock, kFull> {
     public:
      FORETOKEN_SIMD_INLINE void open(const Row& row, size_t k, size_t count) {
        Fp8Block<kBlock, kFull>::open(row.codes + k, count);
      }
    };
  };

  Fp8RowRows(const WeightParams& weight, size_t in_features, size_t matrix = 0) : Fp8Matrix(weight, in_features, 1, matrix) {}
  FORETOKEN_SIMD_INLINE Row row(size_t n) const { return {codes(n), kE4M3Unit * scale_at(scales(n), 0, scale_is_bf16())}; }
};

/// FP8 with a scale for each block of 128 columns.
class Fp8BlockRows : public Fp8Matrix {
 public:
  struct Row {
    static constexpr size_t kBlock = 128;
    static constexpr size_t kBlockBytes = kBlock;
    static constexpr size_t kBlockScaleBytes = 0;
    static constexpr bool kHasBlockScales = true;
    static constexpr bool kHasRowScale = true;
    static constexpr bool kTakesDigits = false;
    static constexpr float row_scale = kE4M3Unit;
    static constexpr size_t kSpan = kBlock;
    const uint8_t* codes;
    const char* scales;
    bool scale_is_bf16;

    template <bool kFull>
    class Block : public Fp8Block<kBlock, kFull> {
     public:
      FORETOKEN_SIMD_INLINE void open(const Row& row, size_t k, size_t count) {
        Fp8Block<kBlock, kFull>::open(row.codes + k, count);
        scale_ = scale_at(row.scales, k / kBlock, row.scale_is_bf16);
      }
      template <size_t>
      FORETOKEN_SIMD_INLINE F32x16 scale() const {
        return F32x16::broadcast(scale_);
      }

     private:
      float scale_;
    };
  };

  Fp8BlockRows(const WeightParams& weight, size_t in_features, size_t matrix = 0)
      : Fp8Matrix(weight, in_features, (in_features + Row::kBlock - 1) / Row::kBlock, matrix) {}
  FORETOKEN_SIMD_INLINE Row row(size_t n) const { return {codes(n), scales(n), scale_is_bf16()}; }
};

}  // namespace foretoken::cpu::FORETOKEN_CPU_ISA
