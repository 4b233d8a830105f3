// The rows that a work group of gated_attention takes, and how their contexts are split.
#pragma once

#include "backends/gpu/attention_params.h"
#include "backends/gpu/numeric.inl"

namespace foretoken::gpu {
namespace {

/// Positions of one split of a row that is `length` positions long.
FORETOKEN_DEVICE uint32_t split_size(uint32_t length) {
  uint32_t size = kMinSplit;
  while (uint64_t{size} * kMaxSplits < length) size *= 2;
  return size;
}

/// The factor of what belongs to `maximum` when a sum goes on with `larger`.
FORETOKEN_DEVICE float rescale_factor(float maximum, float larger) { return maximum == larger ? 1.0F : expf(maximum - larger); }

/// The rows of one sequence that a work group takes.
struct RowGroup {
  const int32_t* block_table;
  uint32_t first_row;     // in the call
  uint32_t num_rows;      // 0: nothing to do
  uint32_t first_length;  // positions that the first row attends to; the next ones see one more each
};

/// Rows [first, first + kAttentionRows) of the call, as far as they are the sequence's.
FORETOKEN_DEVICE RowGroup row_group(const GatedAttentionParams& p, uint32_t sequence, uint32_t first) {
  const auto* starts = pointer<const int32_t>(p.query_start_loc);
  const int32_t begin = starts[sequence];
  const int32_t end = starts[sequence + 1];
  const int32_t first_row = static_cast<int32_t>(first) > begin ? static_cast<int32_t>(first) : begin;
  const int32_t last_row = smaller(static_cast<int32_t>(first + kAttentionRows), end);  // one past
  const int32_t length = pointer<const int32_t>(p.seq_lens)[sequence] - (end - first_row) + 1;
  RowGroup rows{};
  rows.block_table = pointer<const int32_t>(p.block_table) + sequence * p.block_table_stride;
  if (last_row <= first_row || length <= first_row - begin) return rows;
  rows.first_row = static_cast<uint32_t>(first_row);
  rows.num_rows = static_cast<uint32_t>(last_row - first_row);
  rows.first_length = smaller(static_cast<uint32_t>(length), p.max_seq_len);
  return rows;
}

/// Where a query of a row group and key head is: its row within the group, and its head.
struct QueryIndex {
  uint32_t row;
  uint32_t head;
};

FORETOKEN_DEVICE QueryIndex query_index(const GatedAttentionParams& p, uint32_t key_head, uint32_t query) {
  const uint32_t heads = p.num_query_heads / p.num_key_heads;
  return {query / heads, key_head * heads + query % heads};
}

/// Rows of the group whose splits are `size` long: they follow each other, because lengths do.
struct RowRange {
  uint32_t first;
  uint32_t count;
};

FORETOKEN_DEVICE RowRange rows_of_size(const RowGroup& rows, uint32_t size) {
  RowRange range{0, 0};
  for (uint32_t r = 0; r < rows.num_rows; ++r) {
    if (split_size(rows.first_length + r) != size) continue;
    if (range.count++ == 0) range.first = r;
  }
  return range;
}

}  // namespace
}  // namespace foretoken::gpu
