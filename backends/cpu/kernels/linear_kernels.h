// The linear kernels for any weight format. Row-invariant: every sum comes from tile_sums.
#pragma once

#include "backends/cpu/kernels/linear_params.h"
#include "backends/cpu/kernels/linear_tile.h"

namespace foretoken::cpu::FORETOKEN_CPU_ISA {

static_assert(kArgmaxTileColumns <= kMaxTileColumns);

inline constexpr float kNegativeInfinity = -__builtin_inff();

/// Calls block(pieces of x, x of a row group, first row, rows, first column, columns) for each row group of each item's tile.
template <class Rows, class Params, class Block>
FORETOKEN_SIMD_INLINE void for_tiles(const Params& p, uint32_t begin, uint32_t end, Block block) {
  ArrangedRows<Rows> arranged;
  const size_t column_tiles = (p.out_features + p.column_tile - 1) / p.column_tile;
  for (size_t item = begin; item < end; ++item) {
    const size_t column = item % column_tiles * p.column_tile;
    const size_t row = item / column_tiles * p.row_tile;
    const size_t columns = smaller(p.column_tile, p.out_features - column);
    const size_t tile_rows = smaller(p.row_tile, p.num_rows - row);
    const float* tile_x[kMaxRowTile];
    for (size_t r = 0; r < tile_rows; ++r) tile_x[r] = pointer<const float>(p.x) + (row + r) * p.x_stride;
    arranged.take(tile_x, tile_rows, p.in_features);
    for_row_groups<Rows>(tile_rows, [&](size_t first, size_t rows) {
      arranged.with_group(first, rows, [&](auto pieces, const auto& x) { block(pieces, x, row + first, rows, column, columns); });
    });
  }
}

template <class Rows>
void linear(const LinearParams& p, uint32_t begin, uint32_t end) {
  const Rows weight(p.weight, p.in_features);
  for_tiles<Rows>(p, begin, end, [&](auto pieces, const auto& x, size_t row, size_t rows, size_t column, size_t columns) {
    float sums[kMaxGroupRows<Rows> * kMaxTileColumns];
    tile_sums<decltype(pieces)>(x, rows, weight, column, columns, p.in_features, sums);
    for (size_t r = 0; r < rows; ++r) {
      float* out = pointer<float>(p.out) + (row + r) * p.out_stride + column;
      __builtin_memcpy(out, sums + r * kMaxTileColumns, columns * sizeof(float));
    }
  });
}

using LinearFn = void (*)(const LinearParams&, uint32_t, uint32_t);

/// `of_format`: by WeightFormat.
inline void linear_group_of(const LinearFn* of_format, const LinearGroupParams& p, uint32_t begin, uint32_t end) {
  uint32_t first = 0;  // item of the part
  for (uint32_t i = 0; i < p.num_parts; ++i) {
    const LinearGroupParams::Part& part = p.parts[i];
    const uint32_t part_begin = begin > first ? begin - first : 0;
    const uint32_t part_end = end > first ? static_cast<uint32_t>(smaller(end - first, part.num_items)) : 0;
    if (part_begin < part_end) of_format[part.format](part.linear, part_begin, part_end);
    first += part.num_items;
  }
}

template <class Rows>
void linear_silu_mul(const LinearSiluMulParams& p, uint32_t begin, uint32_t end) {
  const Rows gate_weight(p.gate, p.in_features);
  const Rows up_weight(p.up, p.in_features);
  for_tiles<Rows>(p, begin, end, [&](auto pieces, const auto& x, size_t row, size_t rows, size_t column, size_t columns) {
    float gate[kMaxGroupRows<Rows> * kMaxTileColumns];
    float up[kMaxGroupRows<Rows> * kMaxTileColumns];
    tile_sums<decltype(pieces)>(x, rows, gate_weight, column, columns, p.in_features, gate);
    tile_sums<decltype(pieces)>(x, rows, up_weight, column, columns, p.in_features, up);
    for (size_t r = 0; r < rows; ++r) {
      store_silu_mul(gate + r * kMaxTileColumns, up + r * kMaxTileColumns, columns,
                     pointer<float>(p.out) + (row + r) * p.out_stride + column);
    }
  });
}

/// The first of the largest, NaN left out; id -1 when all are NaN.
struct Best {
  float value = kNegativeInfinity;
  int32_t id = -1;

  FORETOKEN_SIMD_INLINE void offer(float other, int32_t other_id) {
    if (other > value || (id < 0 && other == other)) {
      value = other;
      id = other_id;
    }
  }
};

/// Of logits[c] with the ids first_id + c. Overwrites what lies between `columns` and the next multiple of 16.
FORETOKEN_SIMD_INLINE Best best_of(float* logits, size_t columns, size_t first_id) {
  for (size_t c = columns; c % kLanes != 0; ++c) logits[c] = kNegativeInfinity;
  F32x16 largest = F32x16::broadcast(kNegativeInfinity);
  // A NaN as the first operand gives the second.
  for (size_t c = 0; c < columns; c += kLanes) largest = max(F32x16::load(logits + c), largest);
  Best best{.value = reduce_max(largest)};
  for (size_t c = 0; c < columns; ++c) {
    if (logits[c] != best.value) continue;
    best.id = static_cast<int32_t>(first_id + c);
    break;
  }
  return best;
}

/// sum over c < columns of exp(logits[c] - largest); NaN when a logit is NaN. Up to the next multiple of 16 columns
/// `logits` holds minus infinity.
inline float sum_of_exp(float* logits, size_t columns, float largest) {
  bool has_nan = false;
  for (size_t c = 0; c < columns; ++c) has_nan |= logits[c] != logits[c];
  if (has_nan) return __builtin_nanf("");
  F32x16 sum = F32x16::zero();
  for (size_t c = 0; c < columns; c += kLanes) sum = sum + exp(F32x16::load(logits + c) - F32x16::broadcast(largest));
  return reduce_add(sum);
}

template <class Rows>
void linear_argmax(const LinearArgmaxParams& p, uint32_t begin, uint32_t end) {
  const Rows weight(p.weight, p.in_features);
  const size_t tiles = (p.out_features + kArgmaxTileColumns - 1) / kArgmaxTileColumns;
  for_tiles<Rows>(p, begin, end, [&](auto pieces, const auto& x, size_t row, size_t rows, size_t column, size_t columns) {
    float sums[kMaxGroupRows<Rows> * kMaxTileColumns];
    tile_sums<decltype(pieces)>(x, rows, weight, column, columns, p.in_features, sums);
    for (size_t r = 0; r < rows; ++r) {
      float* logits = sums + r * kMaxTileColumns;
      const Best best = best_of(logits, columns, column);
      const size_t at = (row + r) * tiles + column / kArgmaxTileColumns;
      pointer<float>(p.tile_max)[at] = best.value;
      pointer<int32_t>(p.tile_id)[at] = best.id;
      if (p.tile_sum != 0) pointer<float>(p.tile_sum)[at] = sum_of_exp(logits, columns, best.value);
    }
  });
}

}  // namespace foretoken::cpu::FORETOKEN_CPU_ISA
