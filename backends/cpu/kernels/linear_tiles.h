// Linear layers with BF16 weights on the tile unit of AMX, which takes four rows of activations in the time of one. Sixteen rows
// of weights and 32 columns are one tile operand, read where they lie. Activations are the other: each float32 is the exact sum
// of three BF16 numbers, its parts, so a row takes three columns of that tile, and a fourth that is 0. Products are exact, and
// sums of a part are taken in float32 in the order of the columns; then come the parts, (low + middle) + high. A sum depends on
// its row and its weights alone. One that is not finite (the parts of an infinity do not add up) is taken again by linear_tile.h.
#pragma once

#include "backends/cpu/kernels/amx_tiles.h"
#include "backends/cpu/kernels/linear_tile.h"
#include "backends/cpu/kernels/transpose.h"

namespace foretoken::cpu::FORETOKEN_CPU_ISA {

/// Rows of activations whose parts are the columns of one tile.
inline constexpr size_t kQuad = 4;
/// Parts of an element, the last 0.
inline constexpr size_t kParts = 4;
/// Bytes of a tile row for each activation row: its parts of two elements.
inline constexpr size_t kPartBytes = 2 * sizeof(uint16_t) * kParts;

/// BF16 weights that are multiplied on tiles.
struct Bf16TileRows : Bf16Rows {
  using Bf16Rows::Bf16Rows;
};
template <>
inline constexpr size_t kMaxGroupRows<Bf16TileRows> = 2 * kQuad;

/// How activations of a TileGroup lie.
struct TilePieces {};

/// Up to two quads of activations: the rows as they are, and the tiles of one quad after those of the other. Tile t has the parts
/// of columns 32 t and on, in sixteen rows of two columns. A single quad has as many rows as there are; two are full, and rows
/// that are not there are 0.
struct TileGroup {
  const float* const* rows;
  const uint8_t* tiles;
};

FORETOKEN_SIMD_INLINE size_t num_tiles(size_t in_features) { return (in_features + kAmxDepth - 1) / kAmxDepth; }
FORETOKEN_SIMD_INLINE size_t num_quads(size_t rows) { return rows <= kQuad ? 1 : 2; }
/// Bytes of a row of the tiles of a group.
FORETOKEN_SIMD_INLINE size_t tile_row_bytes(size_t rows) { return smaller(rows, kQuad) * kPartBytes; }

/// Writes the parts of pairs of elements, one pair in each row of a tile whose rows are `stride` bytes apart.
FORETOKEN_SIMD_INLINE void store_parts(F32x16 first_of_pair, F32x16 second_of_pair, uint8_t* tile, size_t stride) {
  const __m512i upper = _mm512_set1_epi32(static_cast<int>(0xffff0000U));
  __m512 first = first_of_pair.v;
  __m512 second = second_of_pair.v;
  __m512i parts[3];
  for (__m512i& part : parts) {
    const __m512i top_of_first = _mm512_and_si512(_mm512_castps_si512(first), upper);
    const __m512i top_of_second = _mm512_and_si512(_mm512_castps_si512(second), upper);
    part = _mm512_or_si512(_mm512_srli_epi32(top_of_first, 16), top_of_second);
    first = _mm512_sub_ps(first, _mm512_castsi512_ps(top_of_first));
    second = _mm512_sub_ps(second, _mm512_castsi512_ps(top_of_second));
  }
  // The parts of a pair side by side: vector j has those of pairs j, j + 4, j + 8 and j + 12.
  const __m512i zero = _mm512_setzero_si512();
  const __m512i low[2] = {_mm512_unpacklo_epi32(parts[0], parts[1]), _mm512_unpacklo_epi32(parts[2], zero)};
  const __m512i high[2] = {_mm512_unpackhi_epi32(parts[0], parts[1]), _mm512_unpackhi_epi32(parts[2], zero)};
  const __m512i four[4] = {_mm512_unpacklo_epi64(low[0], low[1]), _mm512_unpackhi_epi64(low[0], low[1]),
                           _mm512_unpacklo_epi64(high[0], high[1]), _mm512_unpackhi_epi64(high[0], high[1])};
  for_each_index<4>([&](auto lane) {
    for (size_t j = 0; j < 4; ++j) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(tile + (4 * lane + j) * stride), _mm512_extracti32x4_epi32(four[j], lane));
    }
  });
}

/// The parts of one row (null: zeros), in the tiles of its quad from its place in their rows on.
inline void arrange_parts(const float* x, size_t in_features, uint8_t* tile, size_t stride) {
  const auto load = [&](size_t k) {
    if (x == nullptr || k >= in_features) return F32x16::zero();  // the latter as in ConsecutivePieces
    return F32x16::load_partial(x + k, smaller(kLanes, in_features - k));
  };
  for (size_t k = 0; k < in_features; k += kAmxDepth, tile += kAmxTile * stride) {
    const F32x16 low = load(k);
    const F32x16 high = load(k + kLanes);
    store_parts(alternate<false>(low, high), alternate<true>(low, high), tile, stride);
  }
}

/// Activations as tiles. Those of a row tile are kept for all items that take the same rows one after another, if they fit;
/// otherwise those of a group.
template <>
class ArrangedRows<Bf16TileRows> {
 public:
  FORETOKEN_SIMD_INLINE void take(const float* const* x, size_t rows, size_t in_features) {
    given_ = x;
    in_features_ = in_features;
    bool is_same = num_rows_ == rows;
    for (size_t r = 0; is_same && r < rows; ++r) is_same = source_[r] == x[r];
    if (is_same) return;
    size_t bytes = 0;
    for_row_groups<Bf16TileRows>(rows, [&](size_t first, size_t count) {
      offset_[first] = bytes;
      bytes += group_bytes(count);
    });
    fits_ = bytes <= sizeof(bytes_);
    num_rows_ = fits_ ? rows : 0;
    if (!fits_) return;
    for (size_t r = 0; r < rows; ++r) source_[r] = x[r];
    for_row_groups<Bf16TileRows>(rows, [&](size_t first, size_t count) { arrange_group(first, count, bytes_ + offset_[first]); });
  }
  template <class Block>
  FORETOKEN_SIMD_INLINE void with_group(size_t first, size_t count, Block block) {
    if (!fits_) arrange_group(first, count, bytes_);
    block(TilePieces(), TileGroup{.rows = given_ + first, .tiles = fits_ ? bytes_ + offset_[first] : bytes_});
  }

 private:
  [[nodiscard]] size_t group_bytes(size_t rows) const {
    return num_quads(rows) * num_tiles(in_features_) * kAmxTile * tile_row_bytes(rows);
  }
  void arrange_group(size_t first, size_t count, uint8_t* tiles) {
    const size_t stride = tile_row_bytes(count);
    const size_t quad_bytes = num_tiles(in_features_) * kAmxTile * stride;
    for (size_t r = 0; r < num_quads(count) * stride / kPartBytes; ++r) {
      arrange_parts(r < count ? given_[first + r] : nullptr, in_features_,
                    tiles + r / kQuad * quad_bytes + r % kQuad * kPartBytes, stride);
    }
  }

  const float* const* given_ = nullptr;
  const float* source_[kMaxRowTile] = {};
  size_t num_rows_ = 0;  // of the row tile that is kept
  size_t in_features_ = 0;
  bool fits_ = false;
  size_t offset_[kMaxRowTile] = {};  // by the first row of a group
  alignas(64) uint8_t bytes_[size_t{kArrangedTileRows} * kMaxTileFeatures / kAmxDepth * kAmxTile * kPartBytes];
};

}  // namespace foretoken::cpu::FORETOKEN_CPU_ISA
