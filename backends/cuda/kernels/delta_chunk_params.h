// Parameters of the delta rule of prefill. Addresses are the device's; strides count elements between rows.
#pragma once

#include <cstdint>

namespace foretoken::cuda {

inline constexpr uint32_t kDeltaChunkThreads = 256;
/// Rows of a sequence that are computed together, and columns of a head's state that a work group keeps.
inline constexpr uint32_t kDeltaChunk = 32;
inline constexpr uint32_t kDeltaChunkColumns = 32;
/// Largest key head.
inline constexpr uint32_t kDeltaChunkDim = 128;
/// BF16 elements from row to row in shared memory: neither eight rows at one column nor a row meets a bank twice.
inline constexpr uint32_t kDeltaKeyStride = kDeltaChunkDim + 8;
inline constexpr uint32_t kDeltaColumnStride = kDeltaChunkColumns + 8;

/// What a work group shares. Arrays of two: an operand as the sum of two BF16 numbers, the larger first.
struct DeltaChunkMemory {
  uint16_t rows[2][2 * kDeltaChunk * kDeltaKeyStride];      // keys, then queries, at unit length
  uint16_t state[2][kDeltaChunkDim * kDeltaColumnStride];   // S_0
  uint16_t scores[2][kDeltaChunk * kDeltaColumnStride];     // r(t, i) (q_t . k_i)
  uint16_t delta[2][kDeltaChunk * kDeltaColumnStride];      // delta_i
  uint16_t remaining[2][kDeltaChunk * kDeltaColumnStride];  // r(end, i) delta_i
  float factors[kDeltaChunk][kDeltaChunk + 4];              // [i][t]: beta_t r(t, i) (k_t . k_i)
  float values[kDeltaChunk][kDeltaChunkColumns + 1];        // beta_t (v_t - G_t S_0^T k_t)
  float log_decay[kDeltaChunk];                             // ln G_t
  float beta[kDeltaChunk];
};

/// delta_chunk: grid (column tile, value head, sequence).
struct DeltaChunkParams {
  uint64_t qkv;              // [T, 2*nk*dk + nv*dv]
  uint64_t b;                // [T, nv]
  uint64_t a;                // [T, nv]
  uint64_t A_log;            // [nv]
  uint64_t dt_bias;          // [nv]
  uint64_t query_start_loc;  // [B+1]
  uint64_t state_slots;      // [B]
  uint64_t num_commit;       // [B], or 0
  uint64_t state;            // [S, nv, dk, dv]
  uint64_t key_record;       // [S, R, nv, dk]; the records exist where rows are committed
  uint64_t delta_record;     // [S, R, nv, dv]
  uint64_t decay_record;     // [S, R, nv]
  uint64_t out;              // [T, nv, dv]
  uint64_t qkv_stride;
  uint64_t b_stride;
  uint64_t a_stride;
  uint64_t out_stride;
  uint32_t num_key_heads;
  uint32_t num_value_heads;
  uint32_t key_dim;    // even
  uint32_t value_dim;  // even
  uint32_t num_slots;
  uint32_t record_rows;
  uint32_t qkv_is_bf16;
  uint32_t b_is_bf16;
  uint32_t a_is_bf16;
  uint32_t out_is_bf16;
};

inline constexpr uint32_t kDeltaNormThreads = 256;

/// delta_norm: the gated norm of outputs, a warp per head of a row. grid: (group of heads, row).
struct DeltaNormParams {
  uint64_t x;                // [T, nv, dv] F32, dense
  uint64_t z;                // [T, nv, dv]
  uint64_t norm;             // [dv]
  uint64_t query_start_loc;  // [B+1]
  uint64_t out;              // [T, nv, dv]
  uint64_t z_stride;
  uint64_t out_stride;
  uint32_t num_sequences;
  uint32_t num_value_heads;
  uint32_t value_dim;
  float eps;
  uint32_t z_is_bf16;
  uint32_t out_is_bf16;
};

}  // namespace foretoken::cuda
