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
inline constexpr size_t kGroupColumns = kRows <= 3 && !kHasBlockScales ? 8 : 4;
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
// multiply: where kHasBlockScales, the scales of the block at k and, out of those, sixteen lanes for each span of kSpan columns;
// row_scale where kHasRowScale. Pieces is how the activations must be cut to match.

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
  /// kCount pieces of the block at k, from kFirst on; unless kFull, only `count` columns of the block are there.
  template <class XPieces, bool kFull, size_t kFirst, size_t kCount, class Row>
  FORETOKEN_SIMD_INLINE void add_pieces(const float* const* x, const Row* w, size_t k, size_t count) {
    for_each_index<kCount>([&](auto index) {
      constexpr size_t kPiece = kFirst + index;
      if constexpr (kFull) {
        step([&](size_t r) { return XPieces::template load<kPiece>(x[r] + k); },
             [&](size_t c) { return w[c].template load<kPiece>(k); });
      } else {
        step([&](size_t r) { return XPieces::template load_partial<kPiece>(x[r] + k, count); },
             [&](size_t c) { return w[c].template load_partial<kPiece>(k, count); });
      }
    });
  }
  /// The whole block at k, its spans scaled before they are added where the format says so.
  template <class XPieces, bool kFull, class Row>
  FORETOKEN_SIMD_INLINE void add_block(const float* const* x, const Row* w, size_t k, size_t count) {
    if constexpr (Row::kHasBlockScales) {
      constexpr size_t kPieces = Row::kSpan / kLanes;
      for_each_index<Row::kBlock / Row::kSpan>([&](auto span) {
        Accumulators sums;
        sums.clear();
        sums.template add_pieces<XPieces, kFull, span * kPieces, kPieces>(x, w, k, count);
#pragma GCC unroll 8
        for (size_t c = 0; c < kCols; ++c) {
          const F32x16 scale = Row::template span_scale<span>(w[c].template block_scales<kFull>(k, count));
#pragma GCC unroll 8
          for (size_t r = 0; r < kRows; ++r) lanes[r][c] = fma(sums.lanes[r][c], scale, lanes[r][c]);
        }
      });
    } else {
      add_pieces<XPieces, kFull, 0, Row::kBlock / kLanes>(x, w, k, count);
    }
  }
};

/// Prefetches weights in the order of their addresses while kCols rows before them are read.
template <class Row, size_t kCols>
struct NextRows {
  RowAddress next;

  /// With block k / Row::kBlock.
  FORETOKEN_SIMD_INLINE void prefetch(size_t k) const {
    constexpr size_t kBytes = kCols * Row::kBlockBytes;
    constexpr size_t kScaleBytes = kCols * Row::kBlockScaleBytes;
#pragma GCC unroll 16
    for (size_t line = 0; line < kBytes; line += 64) RowAddress::prefetch(next.codes + k / Row::kBlock * kBytes + line);
#pragma GCC unroll 16
    for (size_t line = 0; line < kScaleBytes; line += 64)
      RowAddress::prefetch(next.scales + k / Row::kBlock * kScaleBytes + line);
  }
};

/// sums[r * kMaxTileColumns + c] = dot(x[r], w[c]) for all kCols columns.
template <class XPieces, size_t kRows, size_t kCols, class Row>
FORETOKEN_SIMD_INLINE void dot_group(const float* const* x, const Row* w, size_t in_features, const NextRows<Row, kCols>& next,
                                     float* sums) {
  Accumulators<kRows, kCols> acc;
  acc.clear();
  size_t k = 0;
  for (; k + Row::kBlock <= in_features; k += Row::kBlock) {
    next.prefetch(k);
    acc.template add_block<XPieces, true>(x, w, k, Row::kBlock);
  }
  if (k < in_features) acc.template add_block<XPieces, false>(x, w, k, in_features - k);
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

template <size_t kRows, class XPieces, class Rows>
void dot_columns(const float* const* x, const Rows& weights, size_t first, size_t columns, size_t in_features, float* sums) {
  using Row = typename Rows::Row;
  constexpr size_t kCols = kGroupColumns<kRows, Row::kHasBlockScales>;
  const float* rows[kRows];
  for (size_t r = 0; r < kRows; ++r) rows[r] = x[r];
  for (size_t c0 = 0; c0 < columns; c0 += kCols) {
    const size_t count = smaller(kCols, columns - c0);
    Row w[kCols];
    // Columns past the end repeat the last one; nobody reads their sums.
    for (size_t c = 0; c < kCols; ++c) w[c] = weights.row(first + c0 + smaller(c, count - 1));
    const NextRows<Row, kCols> next{weights.address_of(first + c0 + kCols)};
    dot_group<XPieces, kRows, kCols>(rows, w, in_features, next, sums + c0);
  }
}

/// sums[r * kMaxTileColumns + c] = dot(x[r], weights.row(first + c)) for r < rows <= kMaxTileRows, c < columns <=
/// kMaxTileColumns. Sums past `columns` are overwritten with others. XPieces says how the rows of x lie: Rows::Pieces as they
/// come, ArrangedPieces after `arrange`.
template <class XPieces, class Rows>
void tile_sums(const float* const* x, size_t rows, const Rows& weights, size_t first, size_t columns, size_t in_features,
               float* sums) {
  switch (rows) {
    case 1: return dot_columns<1, XPieces>(x, weights, first, columns, in_features, sums);
    case 2: return dot_columns<2, XPieces>(x, weights, first, columns, in_features, sums);
#if defined(__AVX2__)
    case 3: return dot_columns<3, XPieces>(x, weights, first, columns, in_features, sums);
#endif
#if defined(__AVX512F__)
    case 4: return dot_columns<4, XPieces>(x, weights, first, columns, in_features, sums);
    case 5: return dot_columns<5, XPieces>(x, weights, first, columns, in_features, sums);
    case 6: return dot_columns<6, XPieces>(x, weights, first, columns, in_features, sums);
#endif
    default: return;
  }
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
