// How the dot product of linear_tile.h cuts rows: a row into blocks, a block into pieces of sixteen lanes.
#pragma once

#include <type_traits>
#include <utility>

#include "backends/cpu/kernels/linear_params.h"
#include "backends/cpu/kernels/simd.h"

namespace foretoken::cpu::FORETOKEN_CPU_ISA {

FORETOKEN_SIMD_INLINE size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

template <class T>
FORETOKEN_SIMD_INLINE T* pointer(uint64_t address) {
  return reinterpret_cast<T*>(static_cast<uintptr_t>(address));
}

/// Calls call(std::integral_constant) for every index below kCount, in order.
template <size_t kCount, class Call>
FORETOKEN_SIMD_INLINE void for_each_index(Call call) {
  [&]<size_t... kIndices>(std::index_sequence<kIndices...>) __attribute__((always_inline)) {
    (call(std::integral_constant<size_t, kIndices>()), ...);
  }
  (std::make_index_sequence<kCount>());
}

// A Pieces class says which elements of a block make which piece. Arranged are the pieces of a row that `arrange` copied.

/// Pieces of the blocks of a row that `arrange` copied.
struct ArrangedPieces {
  template <size_t kPiece>
  static FORETOKEN_SIMD_INLINE F32x16 load(const float* p) {
    return F32x16::load(p + kPiece * kLanes);
  }
  template <size_t kPiece>
  static FORETOKEN_SIMD_INLINE F32x16 load_partial(const float* p, size_t) {
    return load<kPiece>(p);
  }
};

/// Pieces of a block: sixteen columns after sixteen columns. For activations and weights alike.
struct ConsecutivePieces {
  using Arranged = ArrangedPieces;
  template <size_t kPiece, class T>
  static FORETOKEN_SIMD_INLINE F32x16 load(const T* p) {
    return F32x16::load(p + kPiece * kLanes);
  }
  /// Of a block that has only `count` elements; the others are 0.
  template <size_t kPiece, class T>
  static FORETOKEN_SIMD_INLINE F32x16 load_partial(const T* p, size_t count) {
    constexpr size_t kFirst = kPiece * kLanes;
    if (kFirst >= count) return F32x16::zero();  // a load without any lane is slow where the memory after the row was never used
    return load_lanes(p + kFirst, smaller(kLanes, count - kFirst));
  }

 private:
  static FORETOKEN_SIMD_INLINE F32x16 load_lanes(const float* p, size_t count) { return F32x16::load_partial(p, count); }
  static FORETOKEN_SIMD_INLINE F32x16 load_lanes(const uint16_t* p, size_t count) { return load_partial_bf16(p, count); }
};

#if defined(__AVX512F__)
/// Pieces of each thirty-two of a block: the elements at even places and those at odd places.
struct AlternatePieces {
  using Arranged = ArrangedPieces;
  template <size_t kPiece, class T>
  static FORETOKEN_SIMD_INLINE F32x16 load(const T* p) {
    return load_alternate<kPiece % 2 == 1>(p + kPiece / 2 * 2 * kLanes);
  }
  template <size_t kPiece, class T>
  static FORETOKEN_SIMD_INLINE F32x16 load_partial(const T* p, size_t count) {
    constexpr size_t kFirst = kPiece / 2 * 2 * kLanes;
    if (kFirst >= count) return F32x16::zero();  // as in ConsecutivePieces
    return load_alternate_partial<kPiece % 2 == 1>(p + kFirst, smaller(2 * kLanes, count - kFirst));
  }
};
using Bf16Pieces = AlternatePieces;

/// Pieces of a block of 128 or more: piece j of 128 elements has those at j, j + 8, j + 16, ... Arranging is much faster than
/// loading them one by one.
struct EighthPieces {
  using Arranged = ArrangedPieces;
  template <size_t kPiece>
  static FORETOKEN_SIMD_INLINE F32x16 load(const float* p) {
    return {_mm512_i32gather_ps(places(), p + kPiece / 8 * 128 + kPiece % 8, sizeof(float))};
  }
  template <size_t kPiece>
  static FORETOKEN_SIMD_INLINE F32x16 load_partial(const float* p, size_t count) {
    constexpr size_t kFirst = kPiece / 8 * 128 + kPiece % 8;
    const __m512i left = _mm512_set1_epi32(static_cast<int>(count) - static_cast<int>(kFirst));
    const __mmask16 is_there = _mm512_cmplt_epi32_mask(places(), left);
    return {_mm512_mask_i32gather_ps(_mm512_setzero_ps(), is_there, places(), p + kFirst, sizeof(float))};
  }
  /// The pieces of kBlock elements, of which `count` are there.
  template <size_t kBlock>
  static FORETOKEN_SIMD_INLINE void arrange_block(const float* x, size_t count, float* arranged) {
    for (size_t i = 0; i < kBlock; i += 128) {
      const size_t first = smaller(i, count);
      arrange_128(x + first, smaller(count - first, 128), arranged + i);
    }
  }

 private:
  static FORETOKEN_SIMD_INLINE void arrange_128(const float* x, size_t count, float* arranged) {
    F32x16 v[8];
#pragma GCC unroll 8
    for (size_t i = 0; i < 8; ++i) {
      const size_t first = i * kLanes;
      v[i] = first < count ? F32x16::load_partial(x + first, smaller(kLanes, count - first)) : F32x16::zero();
    }
    // Elements at even places first, then those at odd ones; and so on in each half, three times in all.
    split<8>(v);
    for (size_t i = 0; i < 8; i += 4) split<4>(v + i);
    for (size_t i = 0; i < 8; i += 2) split<2>(v + i);
    // Vector i now has the places that are, modulo 8, i with its three bits reversed.
    constexpr size_t kReversed[8] = {0, 4, 2, 6, 1, 5, 3, 7};
#pragma GCC unroll 8
    for (size_t i = 0; i < 8; ++i) v[i].store(arranged + kReversed[i] * kLanes);
  }
  static FORETOKEN_SIMD_INLINE __m512i places() {
    return _mm512_setr_epi32(0, 8, 16, 24, 32, 40, 48, 56, 64, 72, 80, 88, 96, 104, 112, 120);
  }
  template <size_t kVectors>
  static FORETOKEN_SIMD_INLINE void split(F32x16* v) {
    F32x16 odd[kVectors / 2];
#pragma GCC unroll 4
    for (size_t i = 0; i < kVectors / 2; ++i) {
      odd[i] = alternate<true>(v[2 * i], v[2 * i + 1]);
      v[i] = alternate<false>(v[2 * i], v[2 * i + 1]);
    }
#pragma GCC unroll 4
    for (size_t i = 0; i < kVectors / 2; ++i) v[kVectors / 2 + i] = odd[i];
  }
};
#else
using Bf16Pieces = ConsecutivePieces;
#endif

/// Copies a row so that the pieces of its blocks are consecutive, the last block padded with zeros.
template <class Pieces, size_t kBlock>
FORETOKEN_SIMD_INLINE void arrange(const float* x, size_t in_features, float* arranged) {
  for (size_t k = 0; k < in_features; k += kBlock, arranged += kBlock) {
    const size_t count = smaller(kBlock, in_features - k);
    if constexpr (requires { Pieces::template arrange_block<kBlock>(x, count, arranged); }) {
      Pieces::template arrange_block<kBlock>(x + k, count, arranged);
    } else {
      for_each_index<kBlock / kLanes>([&](auto piece) {
        const F32x16 lanes =
            count == kBlock ? Pieces::template load<piece>(x + k) : Pieces::template load_partial<piece>(x + k, count);
        lanes.store(arranged + piece * kLanes);
      });
    }
  }
}

/// Rows of x in the order in which a weight format takes them, where that is another and they fit: copied once for all items that
/// take the same rows one after another.
template <class Rows>
class ArrangedRows {
 public:
  /// Takes x[0 .. rows), which stay where they are; rows <= kMaxRowTile. Copies them again only when they are others than before.
  FORETOKEN_SIMD_INLINE void take(const float* const* x, size_t rows, size_t in_features) {
    given_ = x;
    is_arranged_ = arrange_rows(x, rows, in_features);
  }
  /// Calls block(pieces, rows) for rows [first, first + count): how they lie, and where.
  template <class Block>
  FORETOKEN_SIMD_INLINE void with_group(size_t first, size_t count, Block block) const {
    if (is_arranged_) {
      const float* x[kMaxRowTile];
      for (size_t r = 0; r < count; ++r) x[r] = floats_ + (first + r) * stride_;
      block(typename Rows::Pieces::Arranged(), static_cast<const float* const*>(x));
    } else {
      block(typename Rows::Pieces(), given_ + first);
    }
  }

 private:
  FORETOKEN_SIMD_INLINE bool arrange_rows(const float* const* x, size_t rows, size_t in_features) {
    if constexpr (!kIsAnother) return false;
    constexpr size_t kBlock = Rows::Row::kBlock;
    const size_t stride = (in_features + kBlock - 1) / kBlock * kBlock;
    if (rows > kMaxRowTile || rows * stride > kArrangedFloats) return false;
    for (size_t r = 0; r < rows; ++r) {
      if (source_[r] == x[r]) continue;
      source_[r] = x[r];
      arrange<typename Rows::Pieces, kBlock>(x[r], in_features, floats_ + r * stride);
    }
    stride_ = stride;
    return true;
  }

  static constexpr bool kIsAnother = !std::is_same_v<typename Rows::Pieces, ConsecutivePieces>;
  const float* const* given_ = nullptr;
  bool is_arranged_ = false;
  const float* source_[kMaxRowTile] = {};
  size_t stride_ = 0;
  alignas(64) float floats_[kIsAnother ? kArrangedFloats : 1];
};

}  // namespace foretoken::cpu::FORETOKEN_CPU_ISA
