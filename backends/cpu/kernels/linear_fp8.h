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

/// Pieces of sixteen consecutive codes.
struct Fp8Codes {
  const uint8_t* codes;
  template <size_t kPiece>
  FORETOKEN_SIMD_INLINE F32x16 load(size_t k) const {
    return load_e4m3<kPiece % 2 == 1>(codes + k + kPiece / 2 * 2 * kLanes);
  }
  template <size_t kPiece>
  FORETOKEN_SIMD_INLINE F32x16 load_partial(size_t k, size_t count) const {
    constexpr size_t kFirst = kPiece * kLanes;
    if (kFirst >= count) return F32x16::zero();  // as in ConsecutivePieces
    return load_partial_e4m3(codes + k + kFirst, smaller(kLanes, count - kFirst));
  }
};

/// What the two kinds of FP8 have in common: where codes and scales of one matrix begin.
class Fp8Matrix {
 public:
  using Pieces = ConsecutivePieces;

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
  FORETOKEN_SIMD_INLINE Fp8Codes codes(size_t n) const { return {codes_ + n * in_features_}; }
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
  struct Row : Fp8Codes {
    static constexpr size_t kBlock = 2 * kLanes;
    static constexpr size_t kBlockBytes = kBlock;
    static constexpr size_t kBlockScaleBytes = 0;
    static constexpr bool kHasBlockScales = false;
    static constexpr bool kHasRowScale = true;
    float row_scale;
  };

  Fp8RowRows(const WeightParams& weight, size_t in_features, size_t matrix = 0) : Fp8Matrix(weight, in_features, 1, matrix) {}
  FORETOKEN_SIMD_INLINE Row row(size_t n) const { return {codes(n), kE4M3Unit * scale_at(scales(n), 0, scale_is_bf16())}; }
};

/// FP8 with a scale for each block of 128 columns.
class Fp8BlockRows : public Fp8Matrix {
 public:
  struct Row : Fp8Codes {
    static constexpr size_t kBlock = 128;
    static constexpr size_t kBlockBytes = kBlock;
    static constexpr size_t kBlockScaleBytes = 0;
    static constexpr bool kHasBlockScales = true;
    static constexpr bool kHasRowScale = true;
    static constexpr float row_scale = kE4M3Unit;
    static constexpr size_t kSpan = kBlock;
    const char* scales;
    bool scale_is_bf16;
    template <bool kFull>
    FORETOKEN_SIMD_INLINE F32x16 block_scales(size_t k, size_t) const {
      return F32x16::broadcast(scale_at(scales, k / kBlock, scale_is_bf16));
    }
    template <size_t kIndex>
    static FORETOKEN_SIMD_INLINE F32x16 span_scale(F32x16 scales) {
      return scales;
    }
  };

  Fp8BlockRows(const WeightParams& weight, size_t in_features, size_t matrix = 0)
      : Fp8Matrix(weight, in_features, (in_features + Row::kBlock - 1) / Row::kBlock, matrix) {}
  FORETOKEN_SIMD_INLINE Row row(size_t n) const { return {codes(n), scales(n), scale_is_bf16()}; }
};

}  // namespace foretoken::cpu::FORETOKEN_CPU_ISA
