// The one way in which every linear kernel takes a dot product, so that a row has the same bits in whatever company it is
// computed. dot(x, w): one accumulator of sixteen lanes; for each block of thirty-two k, zero-padded at the end, two fused
// multiply-adds, one for each half of the block; then reduce_add. Which sixteen k make a half is the weight format's choice. The
// order depends on K and the format alone; instruction-level parallelism comes from several rows and columns at a time.
#pragma once

#include "backends/cpu/kernels/simd.h"

namespace foretoken::cpu::FORETOKEN_CPU_ISA {

/// Most columns of a tile, and of a row in the buffer of its sums.
inline constexpr size_t kMaxTileColumns = 64;

// Accumulators must stay in registers: 32 of 512 bits, 16 of 256 bits (two to sixteen lanes), 16 of 128 bits.
#if defined(__AVX512F__)
inline constexpr size_t kMaxTileRows = 6;
template <size_t kRows>
inline constexpr size_t kGroupColumns = kRows <= 3 ? 8 : 4;
#elif defined(__AVX2__)
inline constexpr size_t kMaxTileRows = 3;
template <size_t kRows>
inline constexpr size_t kGroupColumns = kRows == 1 ? 4 : 2;
#else
inline constexpr size_t kMaxTileRows = 2;
template <size_t kRows>
inline constexpr size_t kGroupColumns = kRows == 1 ? 2 : 1;
#endif

FORETOKEN_SIMD_INLINE size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

template <class T>
FORETOKEN_SIMD_INLINE T* pointer(uint64_t address) {
  return reinterpret_cast<T*>(static_cast<uintptr_t>(address));
}

inline constexpr size_t kBlock = 2 * kLanes;

/// Halves of a block of thirty-two elements: the first sixteen and the last sixteen. For activations and weights alike.
struct ConsecutiveHalves {
  template <bool kSecond, class T>
  static FORETOKEN_SIMD_INLINE F32x16 load(const T* p) {
    return F32x16::load(p + (kSecond ? kLanes : 0));
  }
  template <bool kSecond, class T>
  static FORETOKEN_SIMD_INLINE F32x16 load_partial(const T* p, size_t count) {
    const size_t low = smaller(count, kLanes);
    if constexpr (kSecond) return load_lanes(p + low, count - low);
    return load_lanes(p, low);
  }

 private:
  static FORETOKEN_SIMD_INLINE F32x16 load_lanes(const float* p, size_t count) { return F32x16::load_partial(p, count); }
  static FORETOKEN_SIMD_INLINE F32x16 load_lanes(const uint16_t* p, size_t count) { return load_partial_bf16(p, count); }
};

#if defined(__AVX512F__)
/// Halves of a block: the elements at even places and those at odd places.
struct AlternateHalves {
  template <bool kSecond, class T>
  static FORETOKEN_SIMD_INLINE F32x16 load(const T* p) {
    return load_alternate<kSecond>(p);
  }
  template <bool kSecond, class T>
  static FORETOKEN_SIMD_INLINE F32x16 load_partial(const T* p, size_t count) {
    return load_alternate_partial<kSecond>(p, count);
  }
};
using Bf16Halves = AlternateHalves;

/// Copies a row so that the halves of its blocks are consecutive, the last block padded with zeros.
FORETOKEN_SIMD_INLINE void arrange(AlternateHalves, const float* x, size_t in_features, float* arranged) {
  for (size_t k = 0; k < in_features; k += kBlock, arranged += kBlock) {
    const size_t count = smaller(kBlock, in_features - k);
    AlternateHalves::load_partial<false>(x + k, count).store(arranged);
    AlternateHalves::load_partial<true>(x + k, count).store(arranged + kLanes);
  }
}
#else
using Bf16Halves = ConsecutiveHalves;
#endif

FORETOKEN_SIMD_INLINE void arrange(ConsecutiveHalves, const float* x, size_t in_features, float* arranged) {
  for (size_t k = 0; k < in_features; k += kLanes, arranged += kLanes) {
    F32x16::load_partial(x + k, smaller(kLanes, in_features - k)).store(arranged);
  }
  if ((in_features + kLanes - 1) / kLanes % 2 != 0) F32x16::zero().store(arranged);
}

/// Halves of the blocks of a row that `arrange` copied.
struct ArrangedHalves {
  template <bool kSecond>
  static FORETOKEN_SIMD_INLINE F32x16 load(const float* p) {
    return F32x16::load(p + (kSecond ? kLanes : 0));
  }
  template <bool kSecond>
  static FORETOKEN_SIMD_INLINE F32x16 load_partial(const float* p, size_t) {
    return load<kSecond>(p);
  }
};

// A weight format is a class like these: rows that give halves of blocks, dequantised to float32, and how the activations must be
// halved to match.

/// Weights [N, K] stored as they are computed with or as BF16.
template <class Element, class HalvesOfBlock>
class PlainRows {
 public:
  using Halves = HalvesOfBlock;

  PlainRows(uint64_t address, size_t in_features) : data_(pointer<const Element>(address)), in_features_(in_features) {}

  struct Row {
    static constexpr size_t kElementBits = 8 * sizeof(Element);
    const Element* data;
    template <bool kSecond>
    FORETOKEN_SIMD_INLINE F32x16 load(size_t k) const {
      return Halves::template load<kSecond>(data + k);
    }
    template <bool kSecond>
    FORETOKEN_SIMD_INLINE F32x16 load_partial(size_t k, size_t count) const {
      return Halves::template load_partial<kSecond>(data + k, count);
    }
  };
  FORETOKEN_SIMD_INLINE Row row(size_t n) const { return {data_ + n * in_features_}; }
  /// Where row n lies or would lie; for prefetching, also past the end.
  FORETOKEN_SIMD_INLINE const char* address_of(size_t n) const {
    return pointer<const char>(reinterpret_cast<uintptr_t>(data_) + n * in_features_ * sizeof(Element));
  }

 private:
  const Element* data_;
  size_t in_features_;
};

using F32Rows = PlainRows<float, ConsecutiveHalves>;
using Bf16Rows = PlainRows<uint16_t, Bf16Halves>;

template <size_t kRows, size_t kCols>
struct Accumulators {
  F32x16 lanes[kRows][kCols];

  /// One half of a block: each weight vector is loaded once and used for all rows.
  template <class LoadX, class LoadW>
  FORETOKEN_SIMD_INLINE void step(LoadX load_x, LoadW load_w) {
    F32x16 w[kCols];
#pragma GCC unroll 8
    for (size_t c = 0; c < kCols; ++c) w[c] = load_w(c);
#pragma GCC unroll 8
    for (size_t r = 0; r < kRows; ++r) {
      const F32x16 x = load_x(r);
#pragma GCC unroll 8
      for (size_t c = 0; c < kCols; ++c) lanes[r][c] = fma(x, w[c], lanes[r][c]);
    }
  }
};

/// sums[r * kMaxTileColumns + c] = dot(x[r], w[c]) for all kCols columns. The weights after them, at `next`, are prefetched in
/// the order of their addresses.
template <class XHalves, size_t kRows, size_t kCols, class Row>
FORETOKEN_SIMD_INLINE void dot_group(const float* const* x, const Row* w, size_t in_features, const char* next, float* sums) {
  constexpr size_t kBlockBytes = kCols * kBlock * Row::kElementBits / 8;
  Accumulators<kRows, kCols> acc;
#pragma GCC unroll 8
  for (size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (size_t c = 0; c < kCols; ++c) acc.lanes[r][c] = F32x16::zero();
  }
  size_t k = 0;
  for (; k + kBlock <= in_features; k += kBlock) {
#pragma GCC unroll 16
    for (size_t line = 0; line < kBlockBytes; line += 64) __builtin_prefetch(next + line, 0, 2);
    next += kBlockBytes;
    acc.step([&](size_t r) { return XHalves::template load<false>(x[r] + k); },
             [&](size_t c) { return w[c].template load<false>(k); });
    acc.step([&](size_t r) { return XHalves::template load<true>(x[r] + k); },
             [&](size_t c) { return w[c].template load<true>(k); });
  }
  if (k < in_features) {
    const size_t tail = in_features - k;
    acc.step([&](size_t r) { return XHalves::template load_partial<false>(x[r] + k, tail); },
             [&](size_t c) { return w[c].template load_partial<false>(k, tail); });
    acc.step([&](size_t r) { return XHalves::template load_partial<true>(x[r] + k, tail); },
             [&](size_t c) { return w[c].template load_partial<true>(k, tail); });
  }
  size_t reduced = 0;
#if defined(__AVX512F__)
  if constexpr (kRows >= 4 && kCols == 4) {
    reduce_add_sixteen(acc.lanes[0], kCols, sums, kMaxTileColumns);
    reduced = 4;
  }
#endif
#pragma GCC unroll 8
  for (size_t r = reduced; r < kRows; ++r) {
    float* row = sums + r * kMaxTileColumns;
    if constexpr (kCols % 4 == 0) {
#pragma GCC unroll 8
      for (size_t c = 0; c < kCols; c += 4) reduce_add_four(acc.lanes[r] + c, row + c);
    } else {
#pragma GCC unroll 8
      for (size_t c = 0; c < kCols; ++c) row[c] = reduce_add(acc.lanes[r][c]);
    }
  }
}

template <size_t kRows, class XHalves, class Rows>
void dot_columns(const float* const* x, const Rows& weights, size_t first, size_t columns, size_t in_features, float* sums) {
  constexpr size_t kCols = kGroupColumns<kRows>;
  const float* rows[kRows];
  for (size_t r = 0; r < kRows; ++r) rows[r] = x[r];
  for (size_t c0 = 0; c0 < columns; c0 += kCols) {
    const size_t count = smaller(kCols, columns - c0);
    typename Rows::Row w[kCols];
    // Columns past the end repeat the last one; nobody reads their sums.
    for (size_t c = 0; c < kCols; ++c) w[c] = weights.row(first + c0 + smaller(c, count - 1));
    dot_group<XHalves, kRows, kCols>(rows, w, in_features, weights.address_of(first + c0 + kCols), sums + c0);
  }
}

/// sums[r * kMaxTileColumns + c] = dot(x[r], weights.row(first + c)) for r < rows <= kMaxTileRows, c < columns <=
/// kMaxTileColumns. Sums past `columns` are overwritten with others. XHalves says how the rows
/// of x lie: Rows::Halves as they come, ArrangedHalves after `arrange`.
template <class XHalves, class Rows>
void tile_sums(const float* const* x, size_t rows, const Rows& weights, size_t first, size_t columns, size_t in_features,
               float* sums) {
  switch (rows) {
    case 1: return dot_columns<1, XHalves>(x, weights, first, columns, in_features, sums);
    case 2: return dot_columns<2, XHalves>(x, weights, first, columns, in_features, sums);
#if defined(__AVX2__)
    case 3: return dot_columns<3, XHalves>(x, weights, first, columns, in_features, sums);
#endif
#if defined(__AVX512F__)
    case 4: return dot_columns<4, XHalves>(x, weights, first, columns, in_features, sums);
    case 5: return dot_columns<5, XHalves>(x, weights, first, columns, in_features, sums);
    case 6: return dot_columns<6, XHalves>(x, weights, first, columns, in_features, sums);
#endif
    default: return;
  }
}

/// As above, with rows of x as they come.
template <class Rows>
FORETOKEN_SIMD_INLINE void tile_sums(const float* const* x, size_t rows, const Rows& weights, size_t first, size_t columns,
                                     size_t in_features, float* sums) {
  tile_sums<typename Rows::Halves>(x, rows, weights, first, columns, in_features, sums);
}

/// Calls group(first, count) for rows [0, rows) in groups of nearly equal size, none above kMaxTileRows.
template <class Group>
FORETOKEN_SIMD_INLINE void for_row_groups(size_t rows, Group group) {
  const size_t groups = (rows + kMaxTileRows - 1) / kMaxTileRows;
  for (size_t g = 0, first = 0; g < groups; ++g) {
    const size_t count = (rows - first + (groups - g) - 1) / (groups - g);
    group(first, count);
    first += count;
  }
}

/// out[c] = silu(gate[c]) * up[c] for c < columns; `gate` and `up` have kMaxTileColumns elements.
FORETOKEN_SIMD_INLINE void store_silu_mul(const float* gate, const float* up, size_t columns, float* out) {
  for (size_t c = 0; c < columns; c += kLanes) {
    const size_t count = smaller(kLanes, columns - c);
    const F32x16 value = silu(F32x16::load_partial(gate + c, count)) * F32x16::load_partial(up + c, count);
    value.store_partial(out + c, count);
  }
}

}  // namespace foretoken::cpu::FORETOKEN_CPU_ISA
