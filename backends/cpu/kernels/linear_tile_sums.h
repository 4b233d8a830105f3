// The products of linear_tiles.h. Four tiles of sums at a time, of one quad of activations and four times sixteen rows of weights
// or of two quads and two times sixteen, so that activations are loaded once for several tiles of weights.
#pragma once

#include "backends/cpu/kernels/linear_tiles.h"

namespace foretoken::cpu::FORETOKEN_CPU_ISA {

/// Fetches rows of weights into the second-level cache, in the order of their addresses.
class BlockPrefetcher {
 public:
  /// Rows from `begin` on, `stride` bytes apart, of which `bytes` are wanted.
  BlockPrefetcher(uintptr_t begin, size_t stride, size_t bytes)
      : row_(begin), line_(begin), stride_(stride), lines_per_row_((bytes + kLine - 1) / kLine), left_(lines_per_row_) {}

  /// The next `count` lines.
  FORETOKEN_SIMD_INLINE void fetch(size_t count) {
    while (count > 0) {
      const size_t run = smaller(count, left_);
      for (size_t i = 0; i < run; ++i, line_ += kLine) __builtin_prefetch(pointer<const char>(line_), 0, 2);
      count -= run;
      left_ -= run;
      if (left_ > 0) return;
      row_ += stride_;
      line_ = row_;
      left_ = lines_per_row_;
    }
  }
  [[nodiscard]] size_t lines_per_row() const { return lines_per_row_; }

 private:
  static constexpr size_t kLine = 64;
  uintptr_t row_, line_;
  size_t stride_, lines_per_row_, left_;
};

/// Sums of the parts of a group, by quad and row of weights: [4 r + p] of row r and part p.
using PartSums = float[2][kMaxTileColumns][kLanes];

/// kGroups times sixteen rows of weights times kQuads quads of activations. Weights are taken in blocks of so many rows and
/// kRunBytes of each, and fetched one block ahead.
template <size_t kGroups, size_t kQuads>
class TileProduct {
 public:
  /// The weights from row `first` on, of which `valid` are there: all, unless kGroups is 1.
  TileProduct(const Bf16TileRows& weights, size_t first, size_t valid, size_t in_features, const uint8_t* x, size_t x_row_bytes)
      : begin_(weights.address_of(first).codes),
        row_bytes_(in_features * sizeof(uint16_t)),
        valid_(valid),
        in_features_(in_features),
        x_(x),
        x_row_bytes_(x_row_bytes) {}

  /// Writes sums[quad][row + 0 .. 16 kGroups).
  void run(PartSums& sums, size_t row) {
    for_each_index<kGroups * kQuads>([](auto tile) { tile_zero<tile>(); });
    const size_t tiles = num_tiles(in_features_);
    for (size_t begin = 0; begin < tiles; begin += kRunTiles) {
      const size_t end = smaller(begin + kRunTiles, tiles);
      // The next run of these rows, or the first of the rows that follow.
      const bool is_last = end == tiles;
      const uintptr_t next = begin_ + (is_last ? kRows * row_bytes_ : end * kTileRowBytes);
      const size_t next_bytes = smaller(kRunBytes, is_last ? row_bytes_ : row_bytes_ - end * kTileRowBytes);
      BlockPrefetcher prefetcher(next, row_bytes_, next_bytes);
      const size_t lines = (kRows * prefetcher.lines_per_row() + (end - begin) - 1) / (end - begin);
      for (size_t tile = begin; tile < end; ++tile) {
        prefetcher.fetch(lines);
        add_tile(tile);
      }
    }
    for_each_index<kGroups>([&](auto group) {
      for_each_index<kQuads>(
          [&](auto quad) { tile_store<group * kQuads + quad>(sums[quad][row + group * kAmxTile], kLanes * sizeof(float)); });
    });
  }

 private:
  static_assert(kGroups * kQuads <= 4);
  static constexpr size_t kRows = kGroups * kAmxTile;
  static constexpr size_t kTileRowBytes = kAmxDepth * sizeof(uint16_t);
  static constexpr size_t kRunBytes = 2048;
  static constexpr size_t kRunTiles = kRunBytes / kTileRowBytes;

  FORETOKEN_SIMD_INLINE void add_tile(size_t tile) {
    for_each_index<kQuads>([&](auto quad) {
      tile_load<6 + quad>(x_ + (quad * num_tiles(in_features_) + tile) * kAmxTile * x_row_bytes_, x_row_bytes_);
    });
    for_each_index<kGroups>([&](auto group) {
      constexpr int kWeights = 4 + group % 2;
      load_weights<kWeights>(group * kAmxTile, tile);
      for_each_index<kQuads>([&](auto quad) { tile_multiply<group * kQuads + quad, kWeights, 6 + quad>(); });
    });
  }

  /// Sixteen rows from `row` on: from where they lie, or through a copy where sixteen rows or 32 columns are not there.
  template <int kTile>
  FORETOKEN_SIMD_INLINE void load_weights(size_t row, size_t tile) {
    const uintptr_t from = begin_ + row * row_bytes_ + tile * kTileRowBytes;
    const size_t columns = in_features_ - tile * kAmxDepth;
    if (columns >= kAmxDepth && valid_ == kRows) {
      tile_load<kTile>(pointer<const uint8_t>(from), row_bytes_);
      return;
    }
    alignas(64) uint8_t copy[kAmxTile][kTileRowBytes] = {};
    for (size_t r = 0; r < smaller(kAmxTile, valid_ - row); ++r) {
      __builtin_memcpy(copy[r], pointer<const uint8_t>(from + r * row_bytes_), smaller(columns, kAmxDepth) * sizeof(uint16_t));
    }
    tile_load<kTile>(copy, kTileRowBytes);
  }

  uintptr_t begin_;
  size_t row_bytes_;
  size_t valid_;
  size_t in_features_;
  const uint8_t* x_;
  size_t x_row_bytes_;
};

/// Sums of sixteen rows of weights from `first` on, of which `valid` are there, with the rows of a quad.
inline void join_parts(const float (*parts)[kLanes], const float* const* x, size_t x_rows, const Bf16TileRows& weights,
                       size_t first, size_t valid, size_t in_features, float* sums) {
  __m512 part[kLanes];
  for (size_t n = 0; n < kAmxTile; ++n) part[n] = _mm512_load_ps(parts[n]);
  transpose(part);
#pragma GCC unroll 4
  for (size_t r = 0; r < kQuad; ++r) {
    if (r == x_rows) return;
    const __m512 sum = _mm512_add_ps(_mm512_add_ps(part[kParts * r + 2], part[kParts * r + 1]), part[kParts * r]);
    float* out = sums + r * kMaxTileColumns;
    _mm512_storeu_ps(out, sum);
    constexpr int kNanOrInfinity = 0x99;
    unsigned odd_ones = _mm512_fpclass_ps_mask(sum, kNanOrInfinity) & ((1U << valid) - 1U);
    for (; odd_ones != 0; odd_ones &= odd_ones - 1) {
      const auto n = static_cast<size_t>(__builtin_ctz(odd_ones));
      float again[kMaxTileColumns];
      dot_columns<1, Bf16Rows::Pieces>(x + r, weights, first + n, 1, in_features, again);
      out[n] = again[0];
    }
  }
}

template <size_t kQuads>
void tile_sums_of_quads(const TileGroup& x, size_t rows, const Bf16TileRows& weights, size_t first, size_t columns,
                        size_t in_features, float* sums) {
  const size_t x_row_bytes = tile_row_bytes(rows);
  const TileConfiguration configuration(x_row_bytes);
  alignas(64) PartSums parts;
  const auto multiply = [&]<size_t kGroups>(std::integral_constant<size_t, kGroups>, size_t column) {
    const size_t valid = smaller(kGroups * kAmxTile, columns - column);
    TileProduct<kGroups, kQuads>(weights, first + column, valid, in_features, x.tiles, x_row_bytes).run(parts, column);
  };
  constexpr size_t kMost = 4 / kQuads;
  size_t column = 0;
  for (; columns - column >= kMost * kAmxTile; column += kMost * kAmxTile) {
    multiply(std::integral_constant<size_t, kMost>(), column);
  }
  for (; column < columns; column += kAmxTile) multiply(std::integral_constant<size_t, 1>(), column);
  for (size_t quad = 0; quad < kQuads; ++quad) {
    const size_t row = quad * kQuad;
    for (size_t n = 0; n < columns; n += kAmxTile) {
      join_parts(parts[quad] + n, x.rows + row, smaller(kQuad, rows - row), weights, first + n, smaller(kAmxTile, columns - n),
                 in_features, sums + row * kMaxTileColumns + n);
    }
  }
}

/// As the other tile_sums, on tiles.
template <class>
void tile_sums(const TileGroup& x, size_t rows, const Bf16TileRows& weights, size_t first, size_t columns, size_t in_features,
               float* sums) {
  if (num_quads(rows) == 1) {
    tile_sums_of_quads<1>(x, rows, weights, first, columns, in_features, sums);
  } else {
    tile_sums_of_quads<2>(x, rows, weights, first, columns, in_features, sums);
  }
}

}  // namespace foretoken::cpu::FORETOKEN_CPU_ISA
