// The expert kernels for any weight format. Row-invariant: every sum comes from tile_sums.
#pragma once

#include "backends/cpu/kernels/linear_tile.h"
#include "backends/cpu/kernels/moe_params.h"

namespace foretoken::cpu::FORETOKEN_CPU_ISA {

/// Walks the experts that have pairs, in order.
class ActiveExperts {
 public:
  explicit ActiveExperts(const MoeExpertsParams& p) : offsets_(pointer<const int32_t>(p.expert_offsets)) {
    for (size_t e = 0; e < p.num_experts; ++e) count_ += has_pairs(e) ? 1 : 0;
    while (count_ > 0 && !has_pairs(expert_)) ++expert_;
  }

  [[nodiscard]] size_t count() const { return count_; }
  /// The index-th of them, index < count(), not before the one asked for last.
  size_t find(size_t index) {
    for (; index_ < index; ++index_) {
      do {
        ++expert_;
      } while (!has_pairs(expert_));
    }
    return expert_;
  }

 private:
  [[nodiscard]] bool has_pairs(size_t expert) const { return offsets_[expert] != offsets_[expert + 1]; }

  const int32_t* offsets_;
  size_t count_ = 0;
  size_t expert_ = 0;
  size_t index_ = 0;
};

/// Calls block(pieces of x, x of a row group, rows, expert, their pairs, first column, columns) for each row group of each tile
/// of the items.
template <class Rows, class Block>
FORETOKEN_SIMD_INLINE void for_expert_tiles(const MoeExpertsParams& p, uint32_t begin, uint32_t end, Block block) {
  ActiveExperts active(p);
  ArrangedRows<Rows> arranged;
  const auto* offsets = pointer<const int32_t>(p.expert_offsets);
  const size_t column_tiles = (p.out_features + p.column_tile - 1) / p.column_tile;
  const auto first_tile_of = [&](size_t item) { return item * active.count() / p.active_slots; };
  for (size_t tile = first_tile_of(begin); tile < first_tile_of(end); ++tile) {
    const size_t column = tile % column_tiles * p.column_tile;
    const size_t columns = smaller(p.column_tile, p.out_features - column);
    const size_t expert = active.find(tile / column_tiles);
    const int32_t* pairs = pointer<const int32_t>(p.expert_pairs) + offsets[expert];
    for_row_groups<Rows>(static_cast<size_t>(offsets[expert + 1] - offsets[expert]), [&](size_t first, size_t rows) {
      const float* x[kMaxGroupRows<Rows>];
      for (size_t r = 0; r < rows; ++r) {
        x[r] = pointer<const float>(p.x) + static_cast<size_t>(pairs[first + r]) / p.pairs_per_row * p.x_stride;
      }
      arranged.take(x, rows, p.in_features);
      arranged.with_group(
          0, rows, [&](auto pieces, const auto& group) { block(pieces, group, rows, expert, pairs + first, column, columns); });
    });
  }
}

template <class Rows>
void moe_experts_up(const MoeExpertsParams& p, uint32_t begin, uint32_t end) {
  for_expert_tiles<Rows>(
      p, begin, end,
      [&](auto pieces, const auto& x, size_t rows, size_t expert, const int32_t* pairs, size_t column, size_t columns) {
        using Pieces = decltype(pieces);
        const Rows weight(p.weight, p.in_features, expert);
        float gate[kMaxGroupRows<Rows> * kMaxTileColumns];
        float up[kMaxGroupRows<Rows> * kMaxTileColumns];
        tile_sums<Pieces>(x, rows, weight, column, columns, p.in_features, gate);
        tile_sums<Pieces>(x, rows, weight, p.out_features + column, columns, p.in_features, up);
        for (size_t r = 0; r < rows; ++r) {
          store_silu_mul(gate + r * kMaxTileColumns, up + r * kMaxTileColumns, columns,
                         pointer<float>(p.out) + static_cast<size_t>(pairs[r]) * p.out_features + column);
        }
      });
}

template <class Rows>
void moe_experts_down(const MoeExpertsParams& p, uint32_t begin, uint32_t end) {
  for_expert_tiles<Rows>(
      p, begin, end,
      [&](auto pieces, const auto& x, size_t rows, size_t expert, const int32_t* pairs, size_t column, size_t columns) {
        const Rows weight(p.weight, p.in_features, expert);
        float sums[kMaxGroupRows<Rows> * kMaxTileColumns];
        tile_sums<decltype(pieces)>(x, rows, weight, column, columns, p.in_features, sums);
        for (size_t r = 0; r < rows; ++r) {
          float* out = pointer<float>(p.out) + static_cast<size_t>(pairs[r]) * p.out_features + column;
          __builtin_memcpy(out, sums + r * kMaxTileColumns, columns * sizeof(float));
        }
      });
}

}  // namespace foretoken::cpu::FORETOKEN_CPU_ISA
