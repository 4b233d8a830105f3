// The one way in which every linear kernel takes a dot product, so that a row has the same bits in whatever company it is
// computed. dot(x, w): K is cut into blocks, zero-padded at the end, and a block into pieces of sixteen; one accumulator of
// sixteen lanes takes one fused multiply-add for each piece, in order. A format whose scales lie along K sums each block apart
// and adds that, times the block's scales, to the accumulator. Then reduce_add, and one product with the scale of the row, where
// the format has one. The block and which columns make a piece are the weight format's choice: the order of additions depends on
// K and the format alone. Instruction-level parallelism comes from several rows and columns at a time.
#pragma once

#include <type_traits>

#include "backends/cpu/kernels/linear_params.h"
#include "backends/cpu/kernels/linear_pieces.h"

namespace foretoken::cpu::FORETOKEN_CPU_ISA {

/// Most columns of a tile, and of a row in the buffer of its sums.
inline constexpr size_t kMaxTileColumns = 64;

// Accumulators must stay in registers: 32 of 512 bits, 16 of 256 bits (two to sixteen lanes), 16 of 128 bits.
#if defined(__AVX512F__)
inline constexpr size_t kMaxTileRows = 6;
template <size_t kRows, bool kHasBlockScales>
inline constexpr size_t kGroupColumns = kRows <= (kHasBlockScales ? 1 : 3) ? 8 : 4;
#elif defined(__AVX2__)
inline constexpr size_t kMaxTileRows = 3;
template <size_t kRows, bool kHasBlockScales>
inline constexpr size_t kGroupColumns = kRows == 1 ? 4 : 2;
#else
inline constexpr size_t kMaxTileRows = 2;
template <size_t kRows, bool kHasBlockScales>
inline constexpr size_t kGroupColumns = kRows == 1 ? 2 : 1;
#endif

/// Where codes and scales of a row lie, as numbers: they may be beyond the end.
struct RowAddress {
  uintptr_t codes;
  uintptr_t scales;  // those along K

  static FORETOKEN_SIMD_INLINE void prefetch(uintptr_t address) { __builtin_prefetch(pointer<const char>(address), 0, 2); }
};

// A weight format is a class like the one below. Its rows give the pieces of blocks as float32, and what else there is to
// multiply: block_scale(k), sixteen lanes for the block at k, where kHasBlockScales; row_scale where kHasRowScale. Pieces is how
// the activations must be cut to match; where that takes arranging, skip(k) gives the row without its first k columns.

/// Weights [N, K] stored as they are computed with or as BF16.
template <class Element, class PiecesOfBlock>
class PlainRows {
 public:
  using Pieces = PiecesOfBlock;

  struct Row {
    static constexpr size_t kBlock = 2 * kLanes;
    static constexpr size_t kBlockBytes = kBlock * sizeof(Element);
    static constexpr size_t kBlockScaleBytes = 0;
    static constexpr bool kHasBlockScales = false;
    static constexpr bool kHasRowScale = false;
    const Element* data;
    template <size_t kPiece>
    FORETOKEN_SIMD_INLINE F32x16 load(size_t k) const {
      return Pieces::template load<kPiece>(data + k);
    }
    template <size_t kPiece>
    FORETOKEN_SIMD_INLINE F32x16 load_partial(size_t k, size_t count) const {
      return Pieces::template load_partial<kPiece>(data + k, count);
    }
  };

  /// Matrix `matrix` of a stack.
  PlainRows(const WeightParams& weight, size_t in_features, size_t matrix = 0)
      : data_(pointer<const Element>(weight.codes) + matrix * weight.rows * in_features), in_features_(in_features) {}
  FORETOKEN_SIMD_INLINE Row row(size_t n) const { return {data_ + n * in_features_}; }
  /// Where row n lies or would lie; for prefetching, also past the end.
  FORETOKEN_SIMD_INLINE RowAddress address_of(size_t n) const {
    return {reinterpret_cast<uintptr_t>(data_) + n * in_features_ * sizeof(Element), 0};
  }

 private:
  const Element* data_;
  size_t in_features_;
};

using F32Rows = PlainRows<float, ConsecutivePieces>;
using Bf16Rows = PlainRows<uint16_t, Bf16Pieces>;

template <size_t kRows, size_t kCols>
struct Accumulators {
  F32x16 lanes[kRows][kCols];

  FORETOKEN_SIMD_INLINE void clear() {
#pragma GCC unroll 8
    for (size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
      for (size_t c = 0; c < kCols; ++c) lanes[r][c] = F32x16::zero();
    }
  }
  /// One piece of a block: each weight vector is loaded once and used for all rows.
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
  /// All pieces of the block at k; unless kFull, only `count` of its columns are there.
  template <class XPieces, bool kFull, class Row>
  FORETOKEN_SIMD_INLINE void add_block(const float* const* x, const Row* w, size_t k, size_t count) {
    for_pieces<Row::kBlock>([&](auto piece) {
      if constexpr (kFull) {
        step([&](size_t r) { return XPieces::template load<piece>(x[r] + k); },
             [&](size_t c) { return w[c].template load<piece>(k); });
      } else {
        step([&](size_t r) { return XPieces::template load_partial<piece>(x[r] + k, count); },
             [&](size_t c) { return w[c].template load_partial<piece>(k, count); });
      }
    });
  }
  /// The same for a block whose sums are scaled before they are added.
  template <class XPieces, bool kFull, class Row>
  FORETOKEN_SIMD_INLINE void add_scaled_block(const float* const* x, const Row* w, size_t k, size_t count) {
    Accumulators block;
    block.clear();
    block.template add_block<XPieces, kFull>(x, w, k, count);
#pragma GCC unroll 8
    for (size_t c = 0; c < kCols; ++c) {
      const F32x16 scale = w[c].template block_scale<kFull>(k, count);
#pragma GCC unroll 8
      for (size_t r = 0; r < kRows; ++r) lanes[r][c] = fma(block.lanes[r][c], scale, lanes[r][c]);
    }
  }
};

/// Prefetches weights in the order of their addresses while kCols rows before them are read.
template <class Row, size_t kCols>
struct NextInOrder {
  RowAddress next;

  /// With block k / Row::kBlock.
  FORETOKEN_SIMD_INLINE void prefetch(size_t k) const {
    constexpr size_t kBytes = kCols * Row::kBlockBytes;
    constexpr size_t kScaleBytes = kCols * Row::kBlockScaleBytes;
#pragma GCC unroll 16
    for (size_t line = 0; line < kBytes; line += 64) RowAddress::prefetch(next.codes + k / Row::kBlock * kBytes + line);
    if constexpr (kScaleBytes > 0) RowAddress::prefetch(next.scales + k / Row::kBlock * kScaleBytes);
  }
};

/// Adds the products of the first `count` columns to `acc`, and prefetches others on the way.
template <class XPieces, size_t kRows, size_t kCols, class Row, class Next>
FORETOKEN_SIMD_INLINE void accumulate(Accumulators<kRows, kCols>& acc, const float* const* x, const Row* w, size_t count,
                                      const Next& next) {
  const auto add = [&]<bool kFull>(std::bool_constant<kFull>, size_t k, size_t columns) __attribute__((always_inline)) {
    if constexpr (Row::kHasBlockScales) {
      acc.template add_scaled_block<XPieces, kFull>(x, w, k, columns);
    } else {
      acc.template add_block<XPieces, kFull>(x, w, k, columns);
    }
  };
  size_t k = 0;
  for (; k + Row::kBlock <= count; k += Row::kBlock) {
    next.prefetch(k);
    add(std::true_type(), k, Row::kBlock);
  }
  if (k < count) add(std::false_type(), k, count - k);
}

/// sums[r * kMaxTileColumns + c] = the dot product that acc.lanes[r][c] holds.
template <size_t kRows, size_t kCols, class Row>
FORETOKEN_SIMD_INLINE void finish(const Accumulators<kRows, kCols>& acc, [[maybe_unused]] const Row* w, float* sums) {
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
  if constexpr (Row::kHasRowScale) {
    for (size_t r = 0; r < kRows; ++r) {
      for (size_t c = 0; c < kCols; ++c) sums[r * kMaxTileColumns + c] *= w[c].row_scale;
    }
  }
}

/// Rows [first, first + count) of the weights; past `count` the last one, again: nobody reads those sums.
template <size_t kCols, class Rows>
FORETOKEN_SIMD_INLINE void take_rows(const Rows& weights, size_t first, size_t count, typename Rows::Row* w) {
  for (size_t c = 0; c < kCols; ++c) w[c] = weights.row(first + smaller(c, count - 1));
}

template <size_t kRows, class XPieces, class Rows>
void dot_columns(const float* const* x, const Rows& weights, size_t first, size_t columns, size_t in_features, float* sums) {
  using Row = typename Rows::Row;
  constexpr size_t kCols = kGroupColumns<kRows, Row::kHasBlockScales>;
  const float* rows[kRows];
  for (size_t r = 0; r < kRows; ++r) rows[r] = x[r];
  for (size_t c0 = 0; c0 < columns; c0 += kCols) {
    Row w[kCols];
    take_rows<kCols>(weights, first + c0, columns - c0, w);
    Accumulators<kRows, kCols> acc;
    acc.clear();
    accumulate<XPieces>(acc, rows, w, in_features, NextInOrder<Row, kCols>{weights.address_of(first + c0 + kCols)});
    finish(acc, w, sums + c0);
  }
}

#if defined(__AVX512F__)
/// The same for rows that must be arranged first: some columns of K at a time, the accumulators kept meanwhile.
template <size_t kRows, class Rows>
void dot_columns_arranging(const float* const* x, const Rows& weights, size_t first, size_t columns, size_t in_features,
                           float* sums) {
  using Row = typename Rows::Row;
  constexpr size_t kCols = kGroupColumns<kRows, Row::kHasBlockScales>;
  constexpr size_t kChunk = 4096 / kRows / Row::kBlock * Row::kBlock;  // with a third of a first-level cache
  alignas(64) float arranged[kRows * kChunk];
  Accumulators<kRows, kCols> kept[kMaxTileColumns / kCols];
  const float* rows[kRows];
  for (size_t r = 0; r < kRows; ++r) rows[r] = arranged + r * kChunk;
  for (size_t k = 0; k < in_features; k += kChunk) {
    const size_t count = smaller(kChunk, in_features - k);
    for (size_t r = 0; r < kRows; ++r) arrange<typename Rows::Pieces, Row::kBlock>(x[r] + k, count, arranged + r * kChunk);
    for (size_t c0 = 0; c0 < columns; c0 += kCols) {
      Row w[kCols];
      take_rows<kCols>(weights, first + c0, columns - c0, w);
      for (size_t c = 0; c < kCols; ++c) w[c] = w[c].skip(k);
      Accumulators<kRows, kCols>& acc = kept[c0 / kCols];
      if (k == 0) acc.clear();
      accumulate<ArrangedPieces>(acc, rows, w, count, NextInOrder<Row, kCols>{weights.address_of(first + c0 + kCols)});
      if (k + count == in_features) finish(acc, w, sums + c0);
    }
  }
}
#endif

template <size_t kRows, class XPieces, class Rows>
FORETOKEN_SIMD_INLINE void dot_rows(const float* const* x, const Rows& weights, size_t first, size_t columns, size_t in_features,
                                    float* sums) {
  if constexpr (kMustBeArranged<XPieces>) {
    dot_columns_arranging<kRows>(x, weights, first, columns, in_features, sums);
  } else {
    dot_columns<kRows, XPieces>(x, weights, first, columns, in_features, sums);
  }
}

/// sums[r * kMaxTileColumns + c] = dot(x[r], weights.row(first + c)) for r < rows <= kMaxTileRows, c < columns <=
/// kMaxTileColumns. Sums past `columns` are overwritten with others. XPieces says how the rows of x lie: Rows::Pieces as they
/// come, ArrangedPieces after `arrange`.
template <class XPieces, class Rows>
void tile_sums(const float* const* x, size_t rows, const Rows& weights, size_t first, size_t columns, size_t in_features,
               float* sums) {
  switch (rows) {
    case 1: return dot_rows<1, XPieces>(x, weights, first, columns, in_features, sums);
    case 2: return dot_rows<2, XPieces>(x, weights, first, columns, in_features, sums);
#if defined(__AVX2__)
    case 3: return dot_rows<3, XPieces>(x, weights, first, columns, in_features, sums);
#endif
#if defined(__AVX512F__)
    case 4: return dot_rows<4, XPieces>(x, weights, first, columns, in_features, sums);
    case 5: return dot_rows<5, XPieces>(x, weights, first, columns, in_features, sums);
    case 6: return dot_rows<6, XPieces>(x, weights, first, columns, in_features, sums);
#endif
    default: return;
  }
}

/// As above, with rows of x as they come.
template <class Rows>
FORETOKEN_SIMD_INLINE void tile_sums(const float* const* x, size_t rows, const Rows& weights, size_t first, size_t columns,
                                     size_t in_features, float* sums) {
  tile_sums<typename Rows::Pieces>(x, rows, weights, first, columns, in_features, sums);
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
