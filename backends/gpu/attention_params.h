// Parameters of gated_attention. Addresses are the device's; strides count elements between rows.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/gpu/norm_params.h"

namespace foretoken::gpu {

inline constexpr uint32_t kAttentionThreads = 256;
/// Largest head: one thread per element of it.
inline constexpr uint32_t kMaxAttentionHeadDim = kAttentionThreads;
/// Keys and queries (heads of rows) that a work group takes at a time: a thread per pair.
inline constexpr uint32_t kAttentionKeys = 32;
inline constexpr uint32_t kAttentionQueries = 8;
/// Rows of a call that share a work group, as far as they are one sequence's.
inline constexpr uint32_t kAttentionRows = 16;
/// A row's context is cut into pieces of this many positions, doubled until there are no more than kMaxSplits of them: a function
/// of the row's own length alone.
inline constexpr uint32_t kMinSplit = 64;
inline constexpr uint32_t kMaxSplits = 64;

/// Largest number of splits that a row of up to `max_seq_len` positions can have.
[[nodiscard]] constexpr uint32_t splits_for(uint64_t max_seq_len) {
  const uint64_t pieces = (max_seq_len + kMinSplit - 1) / kMinSplit;
  return static_cast<uint32_t>(pieces < kMaxSplits ? pieces : kMaxSplits);
}

/// gated_attention_split: grid (split, key head, sequence), rows first_row .. first_row + kAttentionRows of the call: partial
/// results, merged by gated_attention_combine, grid (query head, row). gated_attention_rows: grid (row group, key head,
/// sequence), every split in turn, merged in the same order.
struct GatedAttentionParams {
  uint64_t q;                // [T, Hq, D]
  uint64_t q_gate;           // [T, Hq, 2*D]
  uint64_t k_cache;          // [num_blocks, block_size, Hkv, D]
  uint64_t v_cache;          // like k_cache
  uint64_t k_scale;          // [1] F32 where the cache is E4M3
  uint64_t v_scale;          // likewise
  uint64_t block_table;      // [B, max_blocks]
  uint64_t seq_lens;         // [B]
  uint64_t query_start_loc;  // [B+1]
  uint64_t out;              // [T, Hq, D]
  uint64_t partial;          // [kAttentionRows, Hq, num_splits, D] F32; only where splits are merged, as the next
  uint64_t partial_max;      // [kAttentionRows, Hq, num_splits, 2] F32: maximum and sum
  uint64_t q_stride;
  uint64_t q_gate_stride;
  uint64_t out_stride;
  uint64_t block_table_stride;
  uint32_t num_sequences;
  uint32_t num_query_heads;
  uint32_t num_key_heads;
  uint32_t head_dim;
  uint32_t num_blocks;
  uint32_t block_size;
  uint32_t num_splits;
  uint32_t first_row;  // of those whose splits are computed
  uint32_t max_seq_len;
  float scale;
  CacheFormat cache_format;
  uint32_t q_is_bf16;
  uint32_t q_gate_is_bf16;
  uint32_t out_is_bf16;
};

}  // namespace foretoken::gpu
