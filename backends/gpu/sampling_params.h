// Parameters of the token kernels. Addresses are the device's; strides count elements between rows.
#pragma once

#include <cstdint>

namespace foretoken::gpu {

inline constexpr uint32_t kArgmaxThreads = 1024;
inline constexpr uint32_t kTokenThreads = 128;
inline constexpr uint32_t kEmbeddingThreads = 256;
inline constexpr uint32_t kRandomThreads = 256;
/// Elements that one work group of random_fill writes.
inline constexpr uint32_t kRandomElements = 4096;

/// grid: rows.
struct ArgmaxParams {
  uint64_t logits;     // [T, V]
  uint64_t token_ids;  // [T]
  uint64_t logits_stride;
  uint64_t vocab_size;
};

/// A thread per token.
struct SelectTokensParams {
  uint64_t host_token_ids;  // [T]
  uint64_t source;          // [N]
  uint64_t source_rows;     // [T]
  uint64_t token_ids;       // [T]
  uint32_t num_tokens;
  uint32_t num_sources;
};

/// A thread per sequence.
struct AcceptDraftsParams {
  uint64_t token_ids;         // [T]
  uint64_t target_token_ids;  // [T]
  uint64_t query_start_loc;   // [B+1]
  uint64_t num_accepted;      // [B]
  uint64_t num_sequences;
};

/// grid: rows.
struct EmbeddingParams {
  uint64_t ids;    // [T]
  uint64_t table;  // [V, H]
  uint64_t out;    // [T, H]
  uint64_t out_stride;
  uint32_t vocab_size;
  uint32_t hidden_size;
  uint32_t table_is_bf16;
  uint32_t out_is_bf16;
};

struct RandomFillParams {
  uint64_t out;  // [N]
  uint64_t num_elements;
  uint64_t seed;
  uint64_t tensor_id;
  float scale;
  float offset;
  uint32_t is_bf16;
  uint32_t reserved;
};

}  // namespace foretoken::gpu
