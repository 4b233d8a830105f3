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
template <size_t kRows, class Row>
inline constexpr size_t kGroupColumns = Row::kTakesDigits                  ? 2
                                        : kRows <= 3 && !Row::kHasRowScale ? 8
                                                                           : 4;
#elif defined(__AVX2__)
inline constexpr size_t kMaxTileRows = 3;
template <size_t kRows, class Row>
inline constexpr size_t kGroupColumns = kRows == 1 ? 4 : 2;
#else
inline constexpr size_t kMaxTileRows = 2;
template <size_t kRows, class Row>
inline constexpr size_t kGroupColumns = kRows == 1 ? 2 : 1;
#endif

/// Where codes and scales of a row lie, as numbers: they may be beyond the end.
struct RowAddress {
  uintptr_t codes;
  uintptr_t scales;  // those along K
};

// A weight format is a class like the one below. A Block is one block of a row, opened at column k: it gives the pieces as
// float32 and, where kHasBlockScales, sixteen lanes of scales for each span of kSpan columns; unless kFull, only `count` columns
// are there and the others are 0. row_scale multiplies the sum where kHasRowScale. Pieces is how the activations must be cut to
// match. A format that kTakesDigits multiplies whole blocks in integers instead (linear_digits.h).

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
    static constexpr bool kTakesDigits = false;
    const Element* data;

    template <bool kFull>
    class Block {
     public:
      FORETOKEN_SIMD_INLINE void open(const Row& row, size_t k, size_t count) {
        data_ = row.data + k;
        count_ = count;
      }
      template <size_t kPiece>
      FORETOKEN_SIMD_INLINE F32x16 piece() const {
        if constexpr (kFull) return Pieces::template load<kPiece>(data_);
        return Pieces::template load_partial<kPiece>(data_, count_);
      }

     private:
      const Element* data_;
      size_t count_;
    };
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

/// Prefetches weights in the order of their addresses: as many at each step as a step takes, whatever the order in which it takes
/// them. It begins where the columns after those at work do, or some would come too late, and a little farther, for memory is
/// slow. A step is a block of each of kCols columns.
template <class Row, size_t kCols>
class Prefetcher {
 public:
  explicit Prefetcher(RowAddress next)
      : next_{next.codes + kAhead, next.scales + kAhead / Row::kBlockBytes * Row::kBlockScaleBytes} {}

  /// Column c's share of a step; shares come in order, each among the arithmetic of its column. All at once would hold up the
  /// loads of the columns at work.
  template <bool kNear>
  FORETOKEN_SIMD_INLINE void fetch_share(size_t c) {
    fetch_lines<kNear, Row::kBlockBytes>(next_.codes, c);
    fetch_lines<kNear, Row::kBlockScaleBytes>(next_.scales, c);
    if (c + 1 == kCols) next_ = {next_.codes + kCols * Row::kBlockBytes, next_.scales + kCols * Row::kBlockScaleBytes};
  }

 private:
  static constexpr size_t kAhead = 8192;
  static constexpr size_t kLine = 64;

  /// The lines of the step that begin in bytes [kBytes c, kBytes c + kBytes).
  template <bool kNear, size_t kBytes>
  static FORETOKEN_SIMD_INLINE void fetch_lines(uintptr_t step, size_t c) {
#pragma GCC unroll 4
    for (size_t line = (kBytes * c + kLine - 1) / kLine * kLine; line < kBytes * (c + 1); line += kLine) {
      __builtin_prefetch(pointer<const char>(step + line), 0, kNear ? 3 : 2);
    }
  }

  RowAddress next_;
};

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
  /// kCount pieces of a block, from kFirst on; `x` points to the block.
  template <class XPieces, bool kFull, size_t kFirst, size_t kCount, class Block>
  FORETOKEN_SIMD_INLINE void add_pieces(const float* const* x, const Block* blocks, size_t count) {
    for_each_index<kCount>([&](auto index) {
      constexpr size_t kPiece = kFirst + index;
      const auto load_x = [&](size_t r) {
        if constexpr (kFull) return XPieces::template load<kPiece>(x[r]);
        return XPieces::template load_partial<kPiece>(x[r], count);
      };
      step(load_x, [&](size_t c) { return blocks[c].template piece<kPiece>(); });
    });
  }
  /// The whole block at k, its spans scaled before they are added where the format says so.
  template <class XPieces, bool kFull, bool kNear, class Row>
  FORETOKEN_SIMD_INLINE void add_block(const float* const* x, const Row* w, size_t k, size_t count,
                                       Prefetcher<Row, kCols>& prefetcher) {
    typename Row::template Block<kFull> blocks[kCols];
#pragma GCC unroll 8
    for (size_t c = 0; c < kCols; ++c) {
      if constexpr (kFull) prefetcher.template fetch_share<kNear>(c);
      blocks[c].open(w[c], k, count);
    }
    const float* x_block[kRows];
#pragma GCC unroll 8
    for (size_t r = 0; r < kRows; ++r) x_block[r] = x[r] + k;
    if constexpr (Row::kTakesDigits) {
#pragma GCC unroll 8
      for (size_t r = 0; r < kRows; ++r) XPieces::template add_products<kCols>(x_block[r], count, blocks, lanes[r]);
    } else if constexpr (Row::kHasBlockScales) {
      constexpr size_t kPieces = Row::kSpan / kLanes;
      for_each_index<Row::kBlock / Row::kSpan>([&](auto span) {
        Accumulators sums;
        sums.clear();
        sums.template add_pieces<XPieces, kFull, span * kPieces, kPieces>(x_block, blocks, count);
#pragma GCC unroll 8
        for (size_t c = 0; c < kCols; ++c) {
          const F32x16 scale = blocks[c].template scale<span>();
#pragma GCC unroll 8
          for (size_t r = 0; r < kRows; ++r) lanes[r][c] = fma(sums.lanes[r][c], scale, lanes[r][c]);
        }
      });
    } else {
      add_pieces<XPieces, kFull, 0, Row::kBlock / kLanes>(x_block, blocks, count);
    }
  }
  /// sums[r * kMaxTileColumns + c] = reduce_add(lanes[r][c]).
  FORETOKEN_SIMD_INLINE void reduce(float* sums) const {
    if constexpr (kCols % 4 == 0) {
      size_t reduced = 0;
#if defined(__AVX512F__)
      if constexpr (kRows >= 4 && kCols == 4) {
        reduce_add_sixteen(lanes[0], kCols, sums, kMaxTileColumns);
        reduced = 4;
      }
#endif
#pragma GCC unroll 8
      for (size_t r = reduced; r < kRows; ++r) {
#pragma GCC unroll 8
        for (size_t c = 0; c < kCols; c += 4) reduce_add_four(lanes[r] + c, sums + r * kMaxTileColumns + c);
      }
    } else if constexpr (kCols == 2) {
#pragma GCC unroll 8
      for (size_t r = 0; r < kRows; r += 2) {
        const size_t next = r + 1 < kRows ? r + 1 : r;
        const F32x16 pairs[4] = {lanes[r][0], lanes[r][1], lanes[next][0], lanes[next][1]};
        float four[4];
        reduce_add_four(pairs, four);
        __builtin_memcpy(sums + r * kMaxTileColumns, four, 2 * sizeof(float));
        __builtin_memcpy(sums + next * kMaxTileColumns, four + 2, 2 * sizeof(float));
      }
    } else {
      static_assert(kCols == 1);
      for (size_t r = 0; r < kRows; ++r) sums[r * kMaxTileColumns] = reduce_add(lanes[r][0]);
    }
  }
};

/// Adds columns [begin, end) of w; only at the end of the rows may that be a part of a block.
template <class XPieces, bool kNear, size_t kRows, size_t kCols, class Row>
FORETOKEN_SIMD_INLINE void add_columns(Accumulators<kRows, kCols>& acc, const float* const* x, const Row* w, size_t begin,
                                       size_t end, Prefetcher<Row, kCols>& prefetcher) {
  size_t k = begin;
  for (; k + Row::kBlock <= end; k += Row::kBlock) {
    acc.template add_block<XPieces, true, kNear>(x, w, k, Row::kBlock, prefetcher);
  }
  if (k < end) acc.template add_block<XPieces, false, kNear>(x, w, k, end - k, prefetcher);
}

/// sums[r * kMaxTileColumns + c], the sum of `acc` times the scale of the row of w.
template <size_t kRows, size_t kCols, class Row>
FORETOKEN_SIMD_INLINE void store_sums(const Accumulators<kRows, kCols>& acc, const Row* w, float* sums) {
  acc.reduce(sums);
  if constexpr (Row::kHasRowScale) {
    for (size_t r = 0; r < kRows; ++r) {
      for (size_t c = 0; c < kCols; ++c) sums[r * kMaxTileColumns + c] *= w[c].row_scale;
    }
  }
}

/// One or two rows of activations are soon read again, and weights best in one run. More are cut into parts that stay in a
/// first-level cache while kRunColumns columns use them.
template <size_t kRows>
inline constexpr bool kCutsRows = kRows > 2;
inline constexpr size_t kRunColumns = 16;
template <size_t kRows>
inline constexpr size_t kPartOfRow = 6144 / kRows / 256 * 256;

template <size_t kRows, class XPieces, class Rows>
void dot_columns(const float* const* x, const Rows& weights, size_t first, size_t columns, size_t in_features, float* sums) {
  using Row = typename Rows::Row;
  constexpr size_t kCols = kGroupColumns<kRows, Row>;
  constexpr size_t kRun = kCutsRows<kRows> ? kRunColumns : kCols;
  const float* rows[kRows];
  for (size_t r = 0; r < kRows; ++r) rows[r] = x[r];
  Prefetcher<Row, kCols> prefetcher(weights.address_of(first + kRun));
  Accumulators<kRows, kCols> partial[kRun / kCols];
  const size_t part = kCutsRows<kRows> ? kPartOfRow<kRows> : in_features;
  for (size_t run = 0; run < columns; run += kRun) {
    const size_t run_end = smaller(run + kRun, columns);
    for (size_t begin = 0; begin < in_features; begin += part) {
      const size_t end = smaller(begin + part, in_features);
      for (size_t c0 = run; c0 < run_end; c0 += kCols) {
        Row w[kCols];
        // Columns past the end repeat the last one; nobody reads their sums.
        for (size_t c = 0; c < kCols; ++c) w[c] = weights.row(first + smaller(c0 + c, columns - 1));
        Accumulators<kRows, kCols> acc;
        if (begin == 0) {
          acc.clear();
        } else {
          acc = partial[(c0 - run) / kCols];
        }
        if (fetches_near) {
          add_columns<XPieces, true>(acc, rows, w, begin, end, prefetcher);
        } else {
          add_columns<XPieces, false>(acc, rows, w, begin, end, prefetcher);
        }
        if (end == in_features) {
          store_sums(acc, w, sums + c0);
        } else {
          partial[(c0 - run) / kCols] = acc;
        }
      }
    }
  }
}

/// sums[r * kMaxTileColumns + c] = dot(x[r], weights.row(first + c)) for r < rows <= kMaxTileRows, c < columns <=
/// kMaxTileColumns. Sums past `columns` are overwritten with others. XPieces says how the rows of x lie: Rows::Pieces as they
/// come, Rows::Pieces::Arranged after `arrange`.
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

/// Most rows of x that tile_sums takes for weights of the class Rows.
template <class Rows>
inline constexpr size_t kMaxGroupRows = kMaxTileRows;

/// Calls group(first, count) for rows [0, rows) in groups of nearly equal size, none above kMaxGroupRows.
template <class Rows, class Group>
FORETOKEN_SIMD_INLINE void for_row_groups(size_t rows, Group group) {
  const size_t groups = (rows + kMaxGroupRows<Rows> - 1) / kMaxGroupRows<Rows>;
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
