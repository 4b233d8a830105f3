// Parameters of the gated delta net kernels. Strides count elements between rows; activations are float32.
#pragma once

#include <cstddef>
#include <cstdint>

namespace foretoken::cpu {

/// Channels of one convolution item, and columns of a state that are worked on at a time.
inline constexpr size_t kConvTile = 128;
inline constexpr size_t kStateSlice = 64;
/// Largest key head: bounds the private copy of a state slice.
inline constexpr size_t kMaxKeyDim = 256;
/// Most rows of a sequence that are recorded: what a head prepares at a time.
inline constexpr size_t kMaxRecordRows = 16;
/// Largest key and value head of the kernel on AMX tiles. Keys come in multiples of 32, values in multiples of 64.
inline constexpr size_t kAmxDeltaDim = 128;
inline constexpr size_t kAmxDeltaKeyMultiple = 32;
inline constexpr size_t kAmxDeltaValueMultiple = 64;

/// Item i is channel tile i % tiles of sequence i / tiles, tiles = ceil(C / kConvTile).
struct CausalConv1dSiluParams {
  const float* x;                  // [T, C]
  const float* weight;             // [C, 4]
  const int32_t* query_start_loc;  // [B+1]
  const int32_t* state_slots;      // [B]
  const int32_t* num_commit;       // [B], or null
  float* conv_state;               // [S, C, 3]
  float* conv_record;              // [S, R, C], where rows are committed or recorded
  float* out;                      // [T, C]
  size_t x_stride;
  size_t out_stride;
  size_t num_channels;
  size_t num_slots;
  size_t record_rows;
  bool records;  // the rows are recorded and the state stays as committed
};

/// Item i is value head i % nv of sequence i / nv: a head's records are read before its new ones are written.
/// "amx_gated_delta_rule" does not record.
struct GatedDeltaRuleParams {
  const float* qkv;                // [T, 2*nk*dk + nv*dv]
  const float* b;                  // [T, nv]
  const float* a;                  // [T, nv]
  const float* A_log;              // [nv]
  const float* dt_bias;            // [nv]
  const int32_t* query_start_loc;  // [B+1]
  const int32_t* state_slots;      // [B]
  const int32_t* num_commit;       // [B], or null
  float* state;                    // [S, nv, dk, dv]
  float* key_record;               // [S, R, nv, dk]; the records exist where rows are committed or recorded
  float* delta_record;             // [S, R, nv, dv]
  float* decay_record;             // [S, R, nv]
  const float* z;                  // [T, nv, dv], or null: no gated norm
  const float* norm;               // [dv]
  float* out;                      // [T, nv, dv]
  size_t qkv_stride;
  size_t b_stride;
  size_t a_stride;
  size_t z_stride;
  size_t out_stride;
  size_t num_key_heads;
  size_t num_value_heads;
  size_t key_dim;  // at most kMaxKeyDim
  size_t value_dim;
  size_t num_slots;
  size_t record_rows;  // at most kMaxRecordRows
  float eps;
  bool records;  // the rows are recorded and the state stays as committed
};

}  // namespace foretoken::cpu
