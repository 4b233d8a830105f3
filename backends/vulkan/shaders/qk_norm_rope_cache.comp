// A query or key head is normed and rotated; keys and values go to their slot of the cache. Grid: (query heads, then key heads; rows).
#version 460
#include "backends/vulkan/shaders/device.glsl"
#include "backends/vulkan/shaders/rope.glsl"

struct QkNormRopeCacheParams {
  uint64_t q_gate;
  uint64_t k;
  uint64_t v;
  uint64_t q_norm;
  uint64_t k_norm;
  uint64_t cos_sin;
  uint64_t slot_mapping;
  uint64_t q;
  uint64_t k_cache;
  uint64_t v_cache;
  uint64_t k_scale;
  uint64_t v_scale;
  uint64_t q_gate_stride;
  uint64_t k_stride;
  uint64_t v_stride;
  int64_t num_slots;
  uint num_query_heads;
  uint num_key_heads;
  uint head_dim;
  uint rotary_dim;
  float eps;
  uint cache_format;
  uint q_gate_is_bf16;
  uint q_is_bf16;
  uint k_is_bf16;
  uint v_is_bf16;
};
PARAMS(QkNormRopeCacheParams);

const uint kCacheBf16 = 1;
const uint kCacheE4m3 = 2;

// Stores an element of the cache; E4M3 codes are value / scale.
void store_cache(uint64_t cache, uint64_t index, float value, uint64_t scale) {
  if (params.cache_format == kCacheE4m3) {
    store_u8(cache, index, float_to_e4m3(value / load_f32(scale, 0)));
  } else {
    store_float(cache, index, value, params.cache_format == kCacheBf16 ? 1 : 0);
  }
}

void main() {
  const uint row = gl_WorkGroupID.y;
  const bool is_query = gl_WorkGroupID.x < params.num_query_heads;
  const uint h = is_query ? gl_WorkGroupID.x : gl_WorkGroupID.x - params.num_query_heads;
  const int64_t slot = load_i64(params.slot_mapping, row);
  if (!is_query && (slot < 0 || slot >= params.num_slots)) return;
  const uint64_t head_at = uint64_t(h) * params.head_dim;
  const uint64_t from = is_query ? params.q_gate : params.k;
  const uint64_t first = is_query ? row * params.q_gate_stride + 2 * head_at : row * params.k_stride + head_at;
  const uint from_is_bf16 = is_query ? params.q_gate_is_bf16 : params.k_is_bf16;
  float sum = 0.0;
  for (uint d = thread_index(); d < params.head_dim; d += kThreads) {
    const float value = load_float(from, first + d, from_is_bf16);
    head[d] = value;
    sum = fma(value, value, sum);
  }
  const float factor = 1.0 / sqrt(group_sum(sum) / float(params.head_dim) + params.eps);
  const uint64_t norm = is_query ? params.q_norm : params.k_norm;
  for (uint d = thread_index(); d < params.head_dim; d += kThreads) {
    precise const float scaled = head[d] * factor * (1.0 + load_f32(norm, d));
    head[d] = scaled;
  }
  barrier();
  const uint64_t cos_sin = params.cos_sin + uint64_t(row) * params.rotary_dim * 4;
  const uint64_t out_at = is_query ? (uint64_t(row) * params.num_query_heads + h) * params.head_dim
                                   : (uint64_t(slot) * params.num_key_heads + h) * params.head_dim;
  for (uint d = thread_index(); d < params.head_dim; d += kThreads) {
    const float turned = rotated(d, cos_sin, params.rotary_dim);
    if (is_query) {
      store_float(params.q, out_at + d, turned, params.q_is_bf16);
    } else {
      store_cache(params.k_cache, out_at + d, turned, params.k_scale);
      store_cache(params.v_cache, out_at + d, load_float(params.v, row * params.v_stride + head_at + d, params.v_is_bf16),
                  params.v_scale);
    }
  }
}
