// Parameters of the attention kernels. Strides count elements between rows; activations are float32.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cpu/kernels/cache_dtype.h"

namespace foretoken::cpu {

/// Positions of one split of the context, and keys that the online softmax takes at a time. A split begins at a fixed position,
/// so how a row is split depends on its own length only.
inline constexpr size_t kAttentionSplit = 256;
inline constexpr size_t kAttentionKeys = 16;
/// Rows that read a split together.
inline constexpr size_t kAttentionRows = 16;
/// Largest head dimension: bounds the converted keys and values.
inline constexpr size_t kMaxAttentionHeadDim = 512;

/// What amx_gated_attention takes: heads of at most so many elements, a multiple of kAmxDepth, and in an item at most so many
/// pairs of a row and a query head, which read keys and values together.
inline constexpr size_t kAmxAttentionDim = 256;
inline constexpr size_t kAmxAttentionPairs = 128;
/// Rows of an item of amx_gated_attention, where so many query heads share a key head.
[[nodiscard]] constexpr size_t amx_attention_rows(size_t heads) { return kAmxAttentionPairs / heads; }

/// A partial result of one row and head over one split: the accumulator, then its maximum and sum, then the maximum and sum of
/// the splits merged so far.
[[nodiscard]] constexpr size_t attention_partial_floats(size_t head_dim) { return (head_dim + 15) / 16 * 16 + 16; }

struct GatedAttentionParams {
  const float* q;                  // [T, Hq, D]
  const float* q_gate;             // [T, Hq, 2*D]
  const void* k_cache;             // [num_blocks, block_size, Hkv, D] of cache_dtype
  const void* v_cache;             // like k_cache
  const float* k_scale;            // [1] where the cache is E4M3, else null
  const float* v_scale;            // like k_scale
  const int32_t* block_table;      // [B, max_blocks]
  const int32_t* seq_lens;         // [B]
  const int32_t* query_start_loc;  // [B+1]
  float* out;                      // [T, Hq, D]
  float* partials;                 // [T, Hq, num_splits, attention_partial_floats(D)]
  size_t q_stride;
  size_t q_gate_stride;
  size_t out_stride;
  size_t block_table_stride;
  size_t num_sequences;
  size_t num_query_heads;
  size_t num_key_heads;
  size_t head_dim;
  size_t num_blocks;
  size_t block_size;
  size_t max_seq_len;
  size_t num_splits;   // partials kept per row and head: all of them, or 1 where an item merges its own
  size_t num_workers;  // gated_attention_split: items that share the splits of one sequence and key head
  float scale;
  CacheDType cache_dtype;
};

}  // namespace foretoken::cpu
