// Parameters of the gated delta net kernels. Addresses are the device's; strides count elements between rows.
#pragma once

#include <cstdint>

namespace foretoken::gpu {

/// Channels and row lanes of a work group of the convolution, and the rows of its tile. No more rows are recorded.
inline constexpr uint32_t kConvChannels = 64;
inline constexpr uint32_t kConvLanes = 4;
inline constexpr uint32_t kConvThreads = kConvChannels * kConvLanes;
inline constexpr uint32_t kConvRows = 16;

/// A warp of the delta rule holds kStateColumns columns of a quarter of the keys of a head's state: kKeyWarps of them share the
/// columns.
inline constexpr uint32_t kStateColumns = 32;
inline constexpr uint32_t kKeyWarps = 4;
/// Largest key head, and largest value head: what the registers of a work group hold.
inline constexpr uint32_t kMaxStateDim = 128;
/// Elements of a head that a thread reads at a time.
inline constexpr uint32_t kStateQuad = 4;
/// A head's columns are those of one work group, or of as many as there are column blocks.
inline constexpr uint32_t kColumnBlocks = kMaxStateDim / kStateColumns;
inline constexpr uint32_t kColumnBlockThreads = kKeyWarps * 32;
inline constexpr uint32_t kWholeHeadThreads = kColumnBlocks * kColumnBlockThreads;

/// grid: (channel tile, sequence, row tile).
struct CausalConv1dSiluParams {
  uint64_t x;                // [T, C]
  uint64_t weight;           // [C, 4]
  uint64_t query_start_loc;  // [B+1]
  uint64_t state_slots;      // [B]
  uint64_t num_commit;       // [B], or 0
  uint64_t conv_state;       // [S, C, 3]
  uint64_t conv_record;      // [S, R, C], where rows are committed or recorded
  uint64_t out;              // [T, C]
  uint64_t x_stride;
  uint64_t out_stride;
  uint32_t num_channels;
  uint32_t num_slots;
  uint32_t record_rows;
  uint32_t records;  // the rows are recorded and the state stays as committed
  uint32_t x_is_bf16;
  uint32_t out_is_bf16;
};

/// grid: (group of the head, value head, sequence).
struct GatedDeltaRuleParams {
  uint64_t qkv;              // [T, 2*nk*dk + nv*dv]
  uint64_t b;                // [T, nv]
  uint64_t a;                // [T, nv]
  uint64_t A_log;            // [nv]
  uint64_t dt_bias;          // [nv]
  uint64_t query_start_loc;  // [B+1]
  uint64_t state_slots;      // [B]
  uint64_t num_commit;       // [B], or 0
  uint64_t state;            // [S, nv, dk, dv]
  uint64_t key_record;       // [S, R, nv, dk]; the records exist where rows are committed or recorded
  uint64_t delta_record;     // [S, R, nv, dv]
  uint64_t decay_record;     // [S, R, nv]
  uint64_t z;                // [T, nv, dv], or 0: no gated norm
  uint64_t norm;             // [dv]
  uint64_t out;              // [T, nv, dv]
  uint64_t qkv_stride;
  uint64_t b_stride;
  uint64_t a_stride;
  uint64_t z_stride;
  uint64_t out_stride;
  uint32_t num_key_heads;
  uint32_t num_value_heads;
  uint32_t key_dim;
  uint32_t value_dim;
  uint32_t num_slots;
  uint32_t record_rows;
  uint32_t records;  // the rows are recorded and the state stays as committed
  float eps;
  uint32_t qkv_is_bf16;
  uint32_t b_is_bf16;
  uint32_t a_is_bf16;
  uint32_t z_is_bf16;
  uint32_t out_is_bf16;
  uint32_t reserved;
};

}  // namespace foretoken::gpu
