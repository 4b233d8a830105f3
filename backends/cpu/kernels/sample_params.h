// Parameters of the kernels that process logits, sample from them and verify sampled drafts. The operators are in core/ops:
// process_logits.h, sample_tokens.h, accept_sampled.h. Rows of the tables of slots are packed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace foretoken::cpu {

/// Items are rows.
struct ProcessLogitsParams {
  float* logits;               // [T, V], updated
  const int32_t* row_slots;    // [T]
  const int32_t* positions;    // [T]
  const float* reals;          // [S, 6]
  const int32_t* integers;     // [S, 3]
  const int32_t* bias_ids;     // [S, M]
  const float* bias_values;    // [S, M]
  const int32_t* stop_ids;     // [S, E]
  const int32_t* counts;       // [S, V]
  const int32_t* history_ids;  // [N]
  const int32_t* history;      // [T, 2]
  const int32_t* mask_rows;    // [T]; null without masks
  const uint32_t* masks;       // [R, words]
  size_t logits_stride;
  size_t vocab_size;
  size_t num_slots;
  size_t num_biases;
  size_t num_stops;
  size_t history_stride;
  size_t num_masks;
};

/// One item.
struct CountTokensParams {
  const int32_t* slots;      // [N]
  const int32_t* token_ids;  // [N]
  int32_t* counts;           // [S, V], updated
  size_t num_tokens;
  size_t num_slots;
  size_t vocab_size;
};

/// Items are rows.
struct SampleTokensParams {
  const float* logits;       // [T, V]
  const int32_t* row_slots;  // [T]
  const int32_t* positions;  // [T]
  const float* reals;        // [S, 6]
  const int64_t* seeds;      // [S]
  int32_t* token_ids;        // [T]
  uint64_t* weight_sums;     // [T]
  size_t logits_stride;
  size_t vocab_size;
  size_t num_slots;
};

/// Items are rows.
struct SampleDraftsParams {
  const float* logits;          // [B, V]
  const int32_t* row_slots;     // [B]
  const int32_t* positions;     // [B]
  const float* reals;           // [S, 6]
  const int32_t* integers;      // [S, 3]
  const int64_t* seeds;         // [S]
  int32_t* token_ids;           // [B]
  int32_t* candidate_ids;       // [B, C]
  uint64_t* candidate_weights;  // [B, C]
  size_t logits_stride;
  size_t vocab_size;
  size_t num_slots;
  size_t num_candidates;
  uint32_t draft_idx;
};

/// Items are sequences.
struct AcceptSampledParams {
  const float* logits;                // [T, V]
  const uint64_t* weight_sums;        // [T]
  const int32_t* token_ids;           // [T]
  const int32_t* row_slots;           // [T]
  const int32_t* positions;           // [T]
  const int32_t* query_start_loc;     // [B+1]
  const int32_t* block_rows;          // [B]
  const int32_t* candidate_ids;       // [K, Q, C]
  const uint64_t* candidate_weights;  // [K, Q, C]
  const float* reals;                 // [S, 6]
  const int32_t* integers;            // [S, 3]
  const int64_t* seeds;               // [S]
  int32_t* picks;                     // [T], updated
  int32_t* num_accepted;              // [B]
  size_t logits_stride;
  size_t vocab_size;
  size_t num_slots;
  size_t num_drafts;      // K
  size_t num_block_rows;  // Q
  size_t num_candidates;  // C
};

}  // namespace foretoken::cpu
