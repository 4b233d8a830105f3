// Parameters of the mixture-of-experts kernels. Addresses are host pointers; strides count elements; activations are float32.
#pragma once

#include <cstdint>

#include "backends/cpu/kernels/linear_params.h"

namespace foretoken::cpu {

/// Columns of a work item that joins the experts of a row.
inline constexpr uint32_t kExpertJoinColumns = 256;

/// Top-k of a row. Items are rows.
struct MoeTopkParams {
  uint64_t logits;        // [T, num_experts]
  uint64_t topk_ids;      // [T, top_k] I32
  uint64_t topk_weights;  // [T, top_k]
  uint64_t logits_stride;
  uint32_t num_experts;
  uint32_t top_k;
  uint32_t renormalise;
  uint32_t reserved;
};
static_assert(sizeof(MoeTopkParams) == 48);

/// Lists the pairs by expert. One item.
struct MoeGroupParams {
  uint64_t topk_ids;        // [num_pairs] I32
  uint64_t expert_offsets;  // [num_experts + 1] I32
  uint64_t expert_pairs;    // [num_pairs] I32
  uint32_t num_experts;
  uint32_t num_pairs;
};
static_assert(sizeof(MoeGroupParams) == 32);

/// One projection of the pairs by their experts. The column tiles of the experts that have pairs, expert after expert, are shared
/// out evenly over active_slots times as many items as an expert has tiles, so weights are read in long runs.
struct MoeExpertsParams {
  uint64_t x;               // pair p reads row p / pairs_per_row
  WeightParams weight;      // [num_experts, weight rows, in_features]
  uint64_t expert_offsets;  // [num_experts + 1] I32
  uint64_t expert_pairs;    // I32
  uint64_t out;             // [pairs, out_features]
  uint64_t x_stride;
  uint32_t pairs_per_row;
  uint32_t num_experts;
  uint32_t active_slots;  // at least the experts that have pairs
  uint32_t in_features;
  uint32_t out_features;
  uint32_t column_tile;  // at most 64
};
static_assert(sizeof(MoeExpertsParams) == 104);

/// out[t] = sum_s topk_weights[t, s] * products[t, s] (+ sigmoid(shared_gate[t]) * shared[t]).
/// Item i is column tile i % tiles of row i / tiles.
struct MoeJoinParams {
  uint64_t products;      // [T, top_k, hidden_size]
  uint64_t topk_weights;  // [T, top_k]
  uint64_t shared;        // [T, hidden_size] or 0
  uint64_t shared_gate;   // [T, 1] or 0
  uint64_t out;           // [T, hidden_size]
  uint64_t shared_stride;
  uint64_t shared_gate_stride;
  uint64_t out_stride;
  uint32_t top_k;
  uint32_t hidden_size;
};
static_assert(sizeof(MoeJoinParams) == 72);

}  // namespace foretoken::cpu
