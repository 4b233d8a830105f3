// Parameters of the gated delta net kernels. Addresses are the device's; strides count elements between rows.
#pragma once

#include <cstdint>

namespace foretoken::gpu {

inline constexpr uint32_t kConvThreads = 128;
/// A work group of the delta rule keeps kStateColumns columns of a head's state: one lane per column, the keys shared out among
/// the warps.
inline constexpr uint32_t kStateThreads = 256;
inline constexpr uint32_t kStateColumns = 32;
inline constexpr uint32_t kStateWarps = kStateThreads / kStateColumns;
/// Largest key head: what the registers of a thread hold.
inline constexpr uint32_t kMaxKeyDim = 256;

/// grid: (channel tile, sequence).
struct CausalConv1dSiluParams {
  uint64_t x;                // [T, C]
  uint64_t weight;           // [C, 4]
  uint64_t query_start_loc;  // [B+1]
  uint64_t state_slots;      // [B]
  uint64_t conv_state;       // [S, C, 3]
  uint64_t conv_record;      // [S, R, C]; 0: the state advances
  uint64_t out;              // [T, C]
  uint64_t x_stride;
  uint64_t out_stride;
  uint32_t num_channels;
  uint32_t num_slots;
  uint32_t record_rows;
  uint32_t x_is_bf16;
  uint32_t out_is_bf16;
  uint32_t reserved;
};

/// grid: (column tile, value head, sequence).
struct GatedDeltaRuleParams {
  uint64_t qkv;              // [T, 2*nk*dk + nv*dv]
  uint64_t b;                // [T, nv]
  uint64_t a;                // [T, nv]
  uint64_t A_log;            // [nv]
  uint64_t dt_bias;          // [nv]
  uint64_t query_start_loc;  // [B+1]
  uint64_t state_slots;      // [B]
  uint64_t state;            // [S, nv, dk, dv]
  uint64_t key_record;       // [S, R, nk, dk]; the records are 0 when the state advances
  uint64_t delta_record;     // [S, R, nv, dv]
  uint64_t decay_record;     // [S, R, nv]
  uint64_t out;              // [T, nv, dv]
  uint64_t qkv_stride;
  uint64_t b_stride;
  uint64_t a_stride;
  uint64_t out_stride;
  uint32_t num_key_heads;
  uint32_t num_value_heads;
  uint32_t key_dim;
  uint32_t value_dim;
  uint32_t num_slots;
  uint32_t record_rows;
  uint32_t qkv_is_bf16;
  uint32_t b_is_bf16;
  uint32_t a_is_bf16;
  uint32_t out_is_bf16;
};

/// grid: (nv * column tiles, then channel tiles of kStateThreads; sequence).
struct RecurrentCommitParams {
  uint64_t num_commit;    // [B]
  uint64_t state_slots;   // [B]
  uint64_t conv_record;   // [S, R, C]
  uint64_t key_record;    // [S, R, nk, dk]
  uint64_t delta_record;  // [S, R, nv, dv]
  uint64_t decay_record;  // [S, R, nv]
  uint64_t conv_state;    // [S, C, 3]
  uint64_t state;         // [S, nv, dk, dv]
  uint32_t num_channels;
  uint32_t num_key_heads;
  uint32_t num_value_heads;
  uint32_t key_dim;
  uint32_t value_dim;
  uint32_t num_slots;
  uint32_t record_rows;
  uint32_t reserved;
};

}  // namespace foretoken::gpu
