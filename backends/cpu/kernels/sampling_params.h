// Parameters of the kernels around token ids and of random weights.
#pragma once

#include <cstddef>
#include <cstdint>

namespace foretoken::cpu {

/// Elements of one RandomFill item.
inline constexpr size_t kRandomFillChunk = 4096;

/// Items are rows.
struct ArgmaxParams {
  const float* logits;  // [T, V]
  int32_t* token_ids;   // [T]
  size_t logits_stride;
  size_t vocab_size;
};

/// Items are sequences.
struct AcceptGreedyParams {
  const int32_t* draft_token_ids;   // [B, K]
  const int32_t* target_token_ids;  // [B, K+1]
  int32_t* num_accepted;            // [B]
  size_t draft_stride;
  size_t target_stride;
  size_t num_drafts;
};

/// Items are ids.
struct OverrideTokensParams {
  const int32_t* forced;  // [K]
  int32_t* token_ids;     // [K], updated
};

/// Items are rows.
struct EmbeddingParams {
  const int32_t* ids;  // [T]
  const void* table;   // [V, H] F32 or BF16
  float* out;          // [T, H]
  size_t out_stride;
  size_t vocab_size;
  size_t hidden_size;
  bool table_is_bf16;
};

/// Item i is elements i * kRandomFillChunk .. of out.
struct RandomFillParams {
  void* out;  // [N] F32 or BF16
  size_t num_elements;
  uint64_t seed;
  uint64_t tensor_id;
  float scale;  // 2^exponent
  float offset;
  bool is_bf16;
};

}  // namespace foretoken::cpu
