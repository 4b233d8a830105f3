// Parameters of the gated delta net kernels. Strides count elements between rows; activations are float32.
#pragma once

#include <cstddef>
#include <cstdint>

namespace foretoken::cpu {

/// Channels of one convolution item, and columns of one state item.
inline constexpr size_t kConvTile = 16;
inline constexpr size_t kStateSlice = 64;
/// Largest key head: bounds the private copy of a state slice.
inline constexpr size_t kMaxKeyDim = 256;
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
  float* conv_state;               // [S, C, 3]
  float* conv_record;              // [S, R, C]; null: the state advances
  float* out;                      // [T, C]
  size_t x_stride;
  size_t out_stride;
  size_t num_channels;
  size_t num_slots;
  size_t record_rows;
};

/// "gated_delta_rule": a value head has slices = ceil(dv / kStateSlice) and n = ceil(slices / slices_per_item) items. Item i is
/// number i % n of value head i / n % nv of sequence i / n / nv. When recording, slices_per_item is 1: a private slice lives as
/// long as its item. "amx_gated_delta_rule", which does not record: item i is value head i % nv of sequence i / nv.
struct GatedDeltaRuleParams {
  const float* qkv;                // [T, 2*nk*dk + nv*dv]
  const float* b;                  // [T, nv]
  const float* a;                  // [T, nv]
  const float* A_log;              // [nv]
  const float* dt_bias;            // [nv]
  const int32_t* query_start_loc;  // [B+1]
  const int32_t* state_slots;      // [B]
  float* state;                    // [S, nv, dk, dv]
  float* key_record;               // [S, R, nk, dk]; the records are null when the state advances
  float* delta_record;             // [S, R, nv, dv]
  float* decay_record;             // [S, R, nv]
  float* out;                      // [T, nv, dv]
  size_t qkv_stride;
  size_t b_stride;
  size_t a_stride;
  size_t out_stride;
  size_t num_key_heads;
  size_t num_value_heads;
  size_t key_dim;  // at most kMaxKeyDim
  size_t value_dim;
  size_t num_slots;
  size_t record_rows;
  size_t slices_per_item;
};

/// Per sequence nv * slices state items as above, then ceil(C / kConvTile) convolution items.
struct RecurrentCommitParams {
  const int32_t* num_commit;   // [B]
  const int32_t* state_slots;  // [B]
  const float* conv_record;    // [S, R, C]
  const float* key_record;     // [S, R, nk, dk]
  const float* delta_record;   // [S, R, nv, dv]
  const float* decay_record;   // [S, R, nv]
  float* conv_state;           // [S, C, 3]
  float* state;                // [S, nv, dk, dv]
  size_t num_channels;
  size_t num_key_heads;
  size_t num_value_heads;
  size_t key_dim;
  size_t value_dim;
  size_t num_slots;
  size_t record_rows;
};

}  // namespace foretoken::cpu
