// Parameters of the norm and rotary kernels. Strides count elements between rows; activations are float32.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cpu/kernels/cache_dtype.h"

namespace foretoken::cpu {

/// Largest head that the kernels with a scratch head take.
inline constexpr size_t kMaxHeadDim = 512;

/// Items are rows.
struct RmsNormParams {
  const float* x;       // [T, H]
  const float* weight;  // [H], zero-centred
  float* out;           // [T, H]
  size_t x_stride;
  size_t out_stride;
  size_t hidden_size;
  float eps;
};

/// Items are rows.
struct AddRmsNormParams {
  const float* x;       // [T, H]
  float* residual;      // [T, H], updated
  const float* weight;  // [H], zero-centred
  float* out;           // [T, H]
  size_t x_stride;
  size_t residual_stride;
  size_t out_stride;
  size_t hidden_size;
  float eps;
};

/// Items are halves of rows: 2 * row for the embedding, 2 * row + 1 for the hidden state.
struct MtpInputParams {
  const int32_t* ids;           // [T]
  const void* table;            // [V, H] F32 or BF16
  const float* hidden;          // [N, H]
  const int32_t* hidden_rows;   // [T], or null: row t
  const float* embedding_norm;  // [H], zero-centred
  const float* hidden_norm;     // [H], zero-centred
  float* out;                   // [T, 2 * H]
  size_t hidden_stride;
  size_t out_stride;
  size_t vocab_size;
  size_t num_hidden;  // N
  size_t hidden_size;
  bool table_is_bf16;
  float eps;
};

/// Items are rows.
struct RopeTableParams {
  const int32_t* positions;  // [T]
  float* cos_sin;            // [T, R]
  size_t rotary_dim;
  double theta;
};

/// Item i is head i % num_heads of row i / num_heads.
struct RopeParams {
  float* x;              // [T, Hn, D], updated
  const float* cos_sin;  // [T, R]
  size_t x_stride;
  size_t num_heads;
  size_t head_dim;
  size_t rotary_dim;
};

/// Item i is head i % H of row i / H, H = num_query_heads + num_key_heads, the query heads first.
struct QkNormRopeCacheParams {
  const float* q_gate;          // [T, Hq, 2*D]; null together with num_query_heads = 0
  const float* k;               // [T, Hkv, D]
  const float* v;               // [T, Hkv, D]
  const float* q_norm;          // [D]
  const float* k_norm;          // [D]
  const float* cos_sin;         // [T, R]
  const int64_t* slot_mapping;  // [T]
  float* q;                     // [T, Hq, D]
  void* k_cache;                // [num_slots, Hkv, D] of cache_dtype
  void* v_cache;                // like k_cache
  const float* k_scale;         // [1] where the cache is E4M3, else null
  const float* v_scale;         // like k_scale
  size_t q_gate_stride;
  size_t k_stride;
  size_t v_stride;
  size_t num_query_heads;
  size_t num_key_heads;
  size_t head_dim;  // at most kMaxHeadDim
  size_t rotary_dim;
  size_t num_slots;
  float eps;
  CacheDType cache_dtype;
};

}  // namespace foretoken::cpu
