// What the attention kernels share: the rows that an item takes, where heads are, the gate.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cpu/kernels/attention_params.h"
#include "backends/cpu/kernels/simd.h"

namespace foretoken::cpu::FORETOKEN_CPU_ISA {

FORETOKEN_SIMD_INLINE size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

/// Rows [first, first + count) of the call that belong to sequence `b` and share one item.
struct RowGroup {
  size_t b;
  size_t first;
  size_t count;
  size_t context;  // positions that row `first` attends to; each later row one more

  [[nodiscard]] size_t length(size_t i) const { return context + i; }
};

/// The rows of sequence b from its row `begin` on, at most `count`. Lengths are held to what the bucket allows.
FORETOKEN_SIMD_INLINE RowGroup row_group(const GatedAttentionParams& p, size_t b, size_t begin, size_t count) {
  const auto first = static_cast<size_t>(p.query_start_loc[b]);
  const size_t rows = static_cast<size_t>(p.query_start_loc[b + 1]) - first;
  const int64_t before = static_cast<int64_t>(p.seq_lens[b]) - static_cast<int64_t>(rows);
  const size_t context = (before < 0 ? 0 : static_cast<size_t>(before)) + begin + 1;
  return {b, first + begin, smaller(count, rows - begin), context};
}

/// Groups of `size` rows that the rows of sequence b make.
FORETOKEN_SIMD_INLINE size_t groups_of(const GatedAttentionParams& p, size_t b, size_t size) {
  const int32_t rows = p.query_start_loc[b + 1] - p.query_start_loc[b];
  return rows <= 0 ? 0 : (static_cast<size_t>(rows) + size - 1) / size;
}

FORETOKEN_SIMD_INLINE size_t groups_of_call(const GatedAttentionParams& p, size_t size) {
  size_t groups = 0;
  for (size_t b = 0; b < p.num_sequences; ++b) groups += groups_of(p, b, size);
  return groups;
}

/// The group whose turn it is, of the `groups` of the call. Groups are taken from both ends in turn: later rows of a prompt
/// attend to more, and threads get ranges of items.
FORETOKEN_SIMD_INLINE RowGroup group_of_turn(const GatedAttentionParams& p, size_t size, size_t groups, size_t turn) {
  size_t local = turn % 2 == 0 ? turn / 2 : groups - 1 - turn / 2;
  size_t b = 0;
  for (; local >= groups_of(p, b, size); ++b) local -= groups_of(p, b, size);
  return row_group(p, b, local * size, size);
}

FORETOKEN_SIMD_INLINE const float* query_head(const GatedAttentionParams& p, size_t row, size_t head) {
  return p.q + row * p.q_stride + head * p.head_dim;
}

FORETOKEN_SIMD_INLINE float* out_head(const GatedAttentionParams& p, size_t row, size_t head) {
  return p.out + row * p.out_stride + head * p.head_dim;
}

FORETOKEN_SIMD_INLINE const float* gate_head(const GatedAttentionParams& p, size_t row, size_t head) {
  return p.q_gate + row * p.q_gate_stride + head * 2 * p.head_dim + p.head_dim;
}

inline constexpr size_t kNoElement = SIZE_MAX;

/// The first element of a key or value of sequence b in its cache; kNoElement where the position has no block.
FORETOKEN_SIMD_INLINE size_t cache_element(const GatedAttentionParams& p, size_t b, size_t key_head, size_t position) {
  const int32_t physical = p.block_table[b * p.block_table_stride + position / p.block_size];
  if (physical < 0 || static_cast<size_t>(physical) >= p.num_blocks) return kNoElement;
  const size_t slot = static_cast<size_t>(physical) * p.block_size + position % p.block_size;
  return (slot * p.num_key_heads + key_head) * p.head_dim;
}

/// out = values / sum * sigmoid(gate)
FORETOKEN_SIMD_INLINE void finish_row(const float* values, const float* gate, size_t head_dim, float sum, float* out) {
  const F32x16 inverse = F32x16::broadcast(1.0F / sum);
  for (size_t d = 0; d < head_dim; d += kLanes) {
    const size_t count = smaller(head_dim - d, kLanes);
    const F32x16 gates = sigmoid(F32x16::load_partial(gate + d, count));
    (F32x16::load_partial(values + d, count) * inverse * gates).store_partial(out + d, count);
  }
}

}  // namespace foretoken::cpu::FORETOKEN_CPU_ISA
