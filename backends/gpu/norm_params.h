// Parameters of the norm and rotary kernels. Addresses are the device's; strides count elements between rows.
#pragma once

#include <cstdint>

namespace foretoken::gpu {

/// One work group per row.
inline constexpr uint32_t kNormThreads = 512;
/// One work group per head of a row.
inline constexpr uint32_t kHeadThreads = 128;
/// Largest head of qk_norm_rope_cache and rope: the group keeps it.
inline constexpr uint32_t kMaxHeadDim = 512;

/// Elements of a row that a thread of rms_norm_quads keeps, in fours.
inline constexpr uint32_t kNormQuads = 3;
inline constexpr uint32_t kMaxQuadRow = kNormQuads * 4 * kNormThreads;

/// rms_norm, and add_rms_norm where `residual` is given.
struct RmsNormParams {
  uint64_t x;         // [T, H]
  uint64_t residual;  // [T, H], updated; 0: none
  uint64_t weight;    // [H] F32
  uint64_t out;       // [T, H]
  uint64_t x_stride;
  uint64_t residual_stride;
  uint64_t out_stride;
  uint32_t hidden_size;
  float eps;
  uint32_t x_is_bf16;
  uint32_t residual_is_bf16;
  uint32_t out_is_bf16;
  uint32_t reserved;
};

/// mtp_input. grid.x: rows, grid.y: the half of the embedding, then that of the hidden state.
struct MtpInputParams {
  uint64_t ids;             // [T] I32
  uint64_t table;           // [V, H]
  uint64_t hidden;          // [N, H]
  uint64_t hidden_rows;     // [T] I32, or 0: row t
  uint64_t embedding_norm;  // [H] F32
  uint64_t hidden_norm;     // [H] F32
  uint64_t out;             // [T, 2 * H]
  uint64_t hidden_stride;
  uint64_t out_stride;
  uint32_t vocab_size;
  uint32_t num_hidden;  // N
  uint32_t hidden_size;
  float eps;
  uint32_t table_is_bf16;
  uint32_t hidden_is_bf16;
  uint32_t out_is_bf16;
  uint32_t reserved;
};

struct RopeTableParams {
  uint64_t positions;  // [T] I32
  uint64_t cos_sin;    // [T, R] F32
  double theta;
  uint32_t num_rows;
  uint32_t rotary_dim;
};

/// grid.x: heads, grid.y: rows.
struct RopeParams {
  uint64_t x;        // [T, Hn, D], updated
  uint64_t cos_sin;  // [T, R] F32
  uint64_t x_stride;
  uint32_t head_dim;
  uint32_t rotary_dim;
  uint32_t x_is_bf16;
  uint32_t reserved;
};

/// How a cache stores keys and values.
enum class CacheFormat : uint32_t { kF32, kBF16, kE4M3 };

/// grid.x: query heads, then key heads; grid.y: rows.
struct QkNormRopeCacheParams {
  uint64_t q_gate;        // [T, Hq, 2*D], or 0
  uint64_t k;             // [T, Hkv, D]
  uint64_t v;             // [T, Hkv, D]
  uint64_t q_norm;        // [D] F32
  uint64_t k_norm;        // [D] F32
  uint64_t cos_sin;       // [T, R] F32
  uint64_t slot_mapping;  // [T] I64
  uint64_t q;             // [T, Hq, D]
  uint64_t k_cache;       // [slots, Hkv, D]
  uint64_t v_cache;
  uint64_t k_scale;  // [1] F32 where the cache is E4M3
  uint64_t v_scale;
  uint64_t q_gate_stride;
  uint64_t k_stride;
  uint64_t v_stride;
  int64_t num_slots;
  uint32_t num_query_heads;  // 0: only the cache is written
  uint32_t num_key_heads;
  uint32_t head_dim;
  uint32_t rotary_dim;
  float eps;
  CacheFormat cache_format;
  uint32_t q_gate_is_bf16;
  uint32_t q_is_bf16;
  uint32_t k_is_bf16;
  uint32_t v_is_bf16;
};

}  // namespace foretoken::gpu
