// Parameters of the kernels that process logits, sample from them and verify sampled drafts (core/ops/process_logits.h,
// sample_tokens.h, accept_sampled.h). Addresses are the device's; the stride counts elements between rows of logits, and rows of
// everything else are packed.
#pragma once

#include <cstdint>

namespace foretoken::gpu {

inline constexpr uint32_t kSampleThreads = 1024;
inline constexpr uint32_t kCountThreads = 128;

/// grid: rows.
struct ProcessLogitsParams {
  uint64_t logits;       // [T, V], updated
  uint64_t row_slots;    // [T]
  uint64_t positions;    // [T]
  uint64_t reals;        // [S, 6]
  uint64_t integers;     // [S, 3]
  uint64_t bias_ids;     // [S, M]
  uint64_t bias_values;  // [S, M]
  uint64_t stop_ids;     // [S, E]
  uint64_t counts;       // [S, V]
  uint64_t history_ids;  // [N]
  uint64_t history;      // [T, 2]
  uint64_t mask_rows;    // [T]; 0 without masks
  uint64_t masks;        // [R, words]
  uint64_t logits_stride;
  uint32_t vocab_size;
  uint32_t num_slots;
  uint32_t num_biases;
  uint32_t num_stops;
  uint32_t history_stride;
  uint32_t num_masks;
};

/// A thread per token.
struct CountTokensParams {
  uint64_t slots;      // [N]
  uint64_t token_ids;  // [N]
  uint64_t counts;     // [S, V], updated
  uint32_t num_tokens;
  uint32_t num_slots;
  uint32_t vocab_size;
  uint32_t reserved;
};

/// grid: rows.
struct SampleTokensParams {
  uint64_t logits;       // [T, V]
  uint64_t row_slots;    // [T]
  uint64_t positions;    // [T]
  uint64_t reals;        // [S, 6]
  uint64_t seeds;        // [S]
  uint64_t token_ids;    // [T]
  uint64_t weight_sums;  // [T]
  uint64_t logits_stride;
  uint32_t vocab_size;
  uint32_t num_slots;
};

/// grid: rows.
struct SampleDraftsParams {
  uint64_t logits;             // [B, V]
  uint64_t row_slots;          // [B]
  uint64_t positions;          // [B]
  uint64_t reals;              // [S, 6]
  uint64_t integers;           // [S, 3]
  uint64_t seeds;              // [S]
  uint64_t token_ids;          // [B]
  uint64_t candidate_ids;      // [B, C]
  uint64_t candidate_weights;  // [B, C]
  uint64_t logits_stride;
  uint32_t vocab_size;
  uint32_t num_slots;
  uint32_t num_candidates;
  uint32_t draft_idx;
};

/// grid: sequences.
struct AcceptSampledParams {
  uint64_t logits;             // [T, V]
  uint64_t weight_sums;        // [T]
  uint64_t token_ids;          // [T]
  uint64_t row_slots;          // [T]
  uint64_t positions;          // [T]
  uint64_t query_start_loc;    // [B+1]
  uint64_t block_rows;         // [B]
  uint64_t candidate_ids;      // [K, Q, C]
  uint64_t candidate_weights;  // [K, Q, C]
  uint64_t reals;              // [S, 6]
  uint64_t integers;           // [S, 3]
  uint64_t seeds;              // [S]
  uint64_t picks;              // [T], updated
  uint64_t num_accepted;       // [B]
  uint64_t logits_stride;
  uint32_t vocab_size;
  uint32_t num_slots;
  uint32_t num_drafts;      // K
  uint32_t num_block_rows;  // Q
  uint32_t num_candidates;  // C
  uint32_t reserved;
};

}  // namespace foretoken::gpu
