// How the dot product of linear_tile.h cuts rows: a row into blocks, a block into pieces of sixteen lanes.
#pragma once

#include <type_traits>
#include <utility>

#include "backends/cpu/kernels/simd.h"

namespace foretoken::cpu::FORETOKEN_CPU_ISA {

FORETOKEN_SIMD_INLINE size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

template <class T>
FORETOKEN_SIMD_INLINE T* pointer(uint64_t address) {
  return reinterpret_cast<T*>(static_cast<uintptr_t>(address));
}

/// Calls call(std::integral_constant) for every piece of a block of kBlock columns, in order.
template <size_t kBlock, class Call>
FORETOKEN_SIMD_INLINE void for_pieces(Call call) {
  [&]<size_t... kPieces>(std::index_sequence<kPieces...>) __attribute__((always_inline)) {
    (call(std::integral_constant<size_t, kPieces>()), ...);
  }
  (std::make_index_sequence<kBlock / kLanes>());
}

/// Pieces of a block: sixteen columns after sixteen columns. For activations and weights alike.
struct ConsecutivePieces {
  template <size_t kPiece, class T>
  static FORETOKEN_SIMD_INLINE F32x16 load(const T* p) {
    return F32x16::load(p + kPiece * kLanes);
  }
  /// Of a block that has only `count` elements; the others are 0.
  template <size_t kPiece, class T>
  static FORETOKEN_SIMD_INLINE F32x16 load_partial(const T* p, size_t count) {
    const size_t first = smaller(kPiece * kLanes, count);
    return load_lanes(p + first, smaller(kLanes, count - first));
  }

 private:
  static FORETOKEN_SIMD_INLINE F32x16 load_lanes(const float* p, size_t count) { return F32x16::load_partial(p, count); }
  static FORETOKEN_SIMD_INLINE F32x16 load_lanes(const uint16_t* p, size_t count) { return load_partial_bf16(p, count); }
};

#if defined(__AVX512F__)
/// Pieces of a block of thirty-two: the elements at even places and those at odd places.
struct AlternatePieces {
  template <size_t kPiece, class T>
  static FORETOKEN_SIMD_INLINE F32x16 load(const T* p) {
    return load_alternate<kPiece == 1>(p);
  }
  template <size_t kPiece, class T>
  static FORETOKEN_SIMD_INLINE F32x16 load_partial(const T* p, size_t count) {
    return load_alternate_partial<kPiece == 1>(p, count);
  }
};
using Bf16Pieces = AlternatePieces;

/// Pieces of a block of 128: piece j has the elements j, j + 8, j + 16, ... It takes a whole block to cut one, so rows of
/// activations must be arranged.
struct EighthPieces {
  static FORETOKEN_SIMD_INLINE void arrange_block(const float* x, size_t count, float* arranged) {
    F32x16 v[8];
#pragma GCC unroll 8
    for (size_t i = 0; i < 8; ++i) {
      const size_t first = smaller(i * kLanes, count);
      v[i] = F32x16::load_partial(x + first, smaller(kLanes, count - first));
    }
    // Each pass sorts the vectors into those of even and those of odd places, 8 / kRuns at a time; three passes: by place mod 8.
    split<8>(v);
    split<4>(v), split<4>(v + 4);
    split<2>(v), split<2>(v + 2), split<2>(v + 4), split<2>(v + 6);
    // Vector i now has the places whose number mod 8 is i with its three bits reversed.
    constexpr size_t kReversed[8] = {0, 4, 2, 6, 1, 5, 3, 7};
#pragma GCC unroll 8
    for (size_t i = 0; i < 8; ++i) v[i].store(arranged + kReversed[i] * kLanes);
  }

 private:
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

/// Whether rows must be arranged to be cut into these pieces.
template <class Pieces>
inline constexpr bool kMustBeArranged = requires {
  &Pieces::arrange_block;
};

/// Copies a row so that the pieces of its blocks are consecutive, the last block padded with zeros.
template <class Pieces, size_t kBlock>
FORETOKEN_SIMD_INLINE void arrange(const float* x, size_t in_features, float* arranged) {
  for (size_t k = 0; k < in_features; k += kBlock) {
    const size_t count = smaller(kBlock, in_features - k);
    if constexpr (kMustBeArranged<Pieces>) {
      Pieces::arrange_block(x + k, count, arranged + k);
    } else if (count == kBlock) {
      for_pieces<kBlock>([&](auto piece) { Pieces::template load<piece>(x + k).store(arranged + k + piece * kLanes); });
    } else {
      for_pieces<kBlock>(
          [&](auto piece) { Pieces::template load_partial<piece>(x + k, count).store(arranged + k + piece * kLanes); });
    }
  }
}

}  // namespace foretoken::cpu::FORETOKEN_CPU_ISA
