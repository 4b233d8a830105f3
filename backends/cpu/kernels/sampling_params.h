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

/// Items are rows.
struct SelectTokensParams {
  const int32_t* host_token_ids;  // [T]
  const int32_t* source;          // [N]
  const int32_t* source_rows;     // [T]
  int32_t* token_ids;             // [T]
  size_t num_sources;
};

/// Items are sequences.
struct AcceptDraftsParams {
  const int32_t* token_ids;         // [T]
  const int32_t* target_token_ids;  // [T]
  const int32_t* query_start_loc;   // [B+1]
  int32_t* num_accepted;            // [B]
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
