// Parameters of gated_attention in prefill, on tensor cores. Addresses are the device's; strides count elements between rows.
#pragma once

#include <cstdint>

#include "backends/gpu/norm_params.h"

namespace foretoken::cuda {

inline constexpr uint32_t kAttentionPrefillThreads = 128;
/// Queries (heads of rows that share a key head) of a work group, and keys that it takes at a time.
inline constexpr uint32_t kPrefillQueries = 64;
inline constexpr uint32_t kPrefillKeys = 64;

/// Queries, keys and values in BF16.
[[nodiscard]] constexpr uint32_t attention_prefill_memory(uint32_t head_dim) {
  return (kPrefillQueries + 2 * kPrefillKeys) * head_dim * 2;
}

/// grid: (tile of queries, key head, sequence). attention_prefill_dHEAD_DIM.
struct AttentionPrefillParams {
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
  uint64_t q_stride;
  uint64_t q_gate_stride;
  uint64_t out_stride;
  uint64_t block_table_stride;
  uint32_t num_query_heads;
  uint32_t num_key_heads;
  uint32_t num_blocks;
  uint32_t block_size;
  uint32_t max_seq_len;
  float scale;
  gpu::CacheFormat cache_format;
  uint32_t q_is_bf16;
  uint32_t q_gate_is_bf16;
  uint32_t out_is_bf16;
};

}  // namespace foretoken::cuda
