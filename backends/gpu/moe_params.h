// Parameters of the routing kernels of a mixture of experts. Addresses are the device's; strides count elements between rows.
#pragma once

#include <cstdint>

namespace foretoken::gpu {

inline constexpr uint32_t kRouteThreads = 128;  // a warp per row
/// Most experts that a router chooses from: a warp keeps their logits.
inline constexpr uint32_t kMaxExperts = 512;
inline constexpr uint32_t kGroupThreads = 1024;
inline constexpr uint32_t kJoinThreads = 128;

struct MoeTopkParams {
  uint64_t logits;        // [T, E]
  uint64_t topk_ids;      // [T, k]
  uint64_t topk_weights;  // [T, k]
  uint64_t logits_stride;
  uint32_t num_rows;
  uint32_t num_experts;
  uint32_t top_k;
  uint32_t renormalise;
};

/// One work group.
struct MoeGroupParams {
  uint64_t topk_ids;        // [P]
  uint64_t expert_offsets;  // [E+1]
  uint64_t expert_pairs;    // [P]
  uint32_t num_experts;
  uint32_t num_pairs;
};

/// grid: (column tile, row).
struct MoeJoinParams {
  uint64_t products;      // [T, k, H] F32
  uint64_t topk_weights;  // [T, k]
  uint64_t shared;        // [T, H], or 0
  uint64_t shared_gate;   // [T, 1] F32
  uint64_t out;           // [T, H]
  uint64_t shared_stride;
  uint64_t shared_gate_stride;
  uint64_t out_stride;
  uint32_t top_k;
  uint32_t hidden_size;
  uint32_t shared_is_bf16;
  uint32_t out_is_bf16;
};

}  // namespace foretoken::gpu
