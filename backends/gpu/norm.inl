// rms_norm, add_rms_norm, rms_norm_gated, rope_table, rope, qk_norm_rope_cache (core/ops/rms_norm.h, rms_norm_gated.h, rope.h).
#pragma once

#include "backends/gpu/norm_params.h"
#include "backends/gpu/numeric.inl"

namespace foretoken::gpu {
namespace {

constexpr int kNormUnroll = 8;  // loads of a thread that are under way together

__global__ void __launch_bounds__(kNormThreads) rms_norm(const RmsNormParams p) {
  begin_kernel();
  __shared__ float scratch[kNormThreads / kLanes];
  const uint64_t x = blockIdx.x * p.x_stride;
  const uint64_t residual = blockIdx.x * p.residual_stride;
  const bool adds = p.residual != 0;
  float sum = 0.0F;
  for (uint32_t base = threadIdx.x; base < p.hidden_size; base += kNormThreads * kNormUnroll) {
#pragma unroll
    for (int u = 0; u < kNormUnroll; ++u) {
      const uint32_t h = base + static_cast<uint32_t>(u) * kNormThreads;
      if (h >= p.hidden_size) continue;
      float value = load_float(p.x, x + h, p.x_is_bf16 != 0);
      if (adds) {
        value += load_float(p.residual, residual + h, p.residual_is_bf16 != 0);
        store_float(p.residual, residual + h, value, p.residual_is_bf16 != 0);
      }
      sum = fmaf(value, value, sum);
    }
  }
  sum = group_sum<kNormThreads>(sum, scratch);
  const float factor = 1.0F / sqrtf(sum / static_cast<float>(p.hidden_size) + p.eps);
  for (uint32_t base = threadIdx.x; base < p.hidden_size; base += kNormThreads * kNormUnroll) {
#pragma unroll
    for (int u = 0; u < kNormUnroll; ++u) {
      const uint32_t h = base + static_cast<uint32_t>(u) * kNormThreads;
      if (h >= p.hidden_size) continue;
      const float value =
          adds ? load_float(p.residual, residual + h, p.residual_is_bf16 != 0) : load_float(p.x, x + h, p.x_is_bf16 != 0);
      store_float(p.out, blockIdx.x * p.out_stride + h, value * factor * (1.0F + pointer<const float>(p.weight)[h]),
                  p.out_is_bf16 != 0);
    }
  }
}

__global__ void __launch_bounds__(kHeadThreads) rms_norm_gated(const RmsNormGatedParams p) {
  begin_kernel();
  __shared__ float scratch[kHeadThreads / kLanes];
  const uint64_t head = uint64_t{blockIdx.x} * p.head_dim;
  const uint64_t x = blockIdx.y * p.x_stride + head;
  const uint64_t gate = blockIdx.y * p.gate_stride + head;
  const uint64_t out = blockIdx.y * p.out_stride + head;
  float sum = 0.0F;
  for (uint32_t d = threadIdx.x; d < p.head_dim; d += kHeadThreads) {
    const float value = load_float(p.x, x + d, p.x_is_bf16 != 0);
    sum = fmaf(value, value, sum);
  }
  sum = group_sum<kHeadThreads>(sum, scratch);
  const float factor = 1.0F / sqrtf(sum / static_cast<float>(p.head_dim) + p.eps);
  for (uint32_t d = threadIdx.x; d < p.head_dim; d += kHeadThreads) {
    const float value = load_float(p.x, x + d, p.x_is_bf16 != 0);
    const float opening = silu(load_float(p.gate, gate + d, p.gate_is_bf16 != 0));
    store_float(p.out, out + d, pointer<const float>(p.weight)[d] * (value * factor) * opening, p.out_is_bf16 != 0);
  }
}

/// One thread per angle.
__global__ void __launch_bounds__(kHeadThreads) rope_table(const RopeTableParams p) {
  begin_kernel();
  const uint32_t half = p.rotary_dim / 2;
  const uint32_t index = blockIdx.x * kHeadThreads + threadIdx.x;
  if (index >= p.num_rows * half) return;
  const uint32_t row = index / half;
  const uint32_t i = index % half;
  const double frequency = pow(p.theta, -2.0 * i / p.rotary_dim);
  const double angle = pointer<const int32_t>(p.positions)[row] * frequency;
  auto* out = pointer<float>(p.cos_sin) + uint64_t{row} * p.rotary_dim + i;
  out[0] = static_cast<float>(cos(angle));
  out[half] = static_cast<float>(sin(angle));
}

/// Element d of a head after the rotation; `head` holds the head before it.
FORETOKEN_DEVICE float rotated(const float* head, uint32_t d, const float* cos_sin, uint32_t rotary_dim) {
  const uint32_t half = rotary_dim / 2;
  if (d >= rotary_dim) return head[d];
  const uint32_t i = d % half;
  const float cosine = cos_sin[i];
  const float sine = cos_sin[half + i];
  if (d < half) return fmaf(head[d], cosine, -(head[d + half] * sine));
  return fmaf(head[d], cosine, head[d - half] * sine);
}

__global__ void __launch_bounds__(kHeadThreads) rope(const RopeParams p) {
  begin_kernel();
  __shared__ float head[kMaxHeadDim];
  const uint64_t first = blockIdx.y * p.x_stride + uint64_t{blockIdx.x} * p.head_dim;
  for (uint32_t d = threadIdx.x; d < p.rotary_dim; d += kHeadThreads) head[d] = load_float(p.x, first + d, p.x_is_bf16 != 0);
  __syncthreads();
  const float* cos_sin = pointer<const float>(p.cos_sin) + uint64_t{blockIdx.y} * p.rotary_dim;
  for (uint32_t d = threadIdx.x; d < p.rotary_dim; d += kHeadThreads) {
    store_float(p.x, first + d, rotated(head, d, cos_sin, p.rotary_dim), p.x_is_bf16 != 0);
  }
}

/// Stores an element of the cache; E4M3 codes are value / scale.
FORETOKEN_DEVICE void store_cache(uint64_t cache, uint64_t index, float value, CacheFormat format, uint64_t scale) {
  if (format == CacheFormat::kE4M3) {
    pointer<uint8_t>(cache)[index] = float_to_e4m3(value / *pointer<const float>(scale));
  } else {
    store_float(cache, index, value, format == CacheFormat::kBF16);
  }
}

__global__ void __launch_bounds__(kHeadThreads) qk_norm_rope_cache(const QkNormRopeCacheParams p) {
  begin_kernel();
  __shared__ float head[kMaxHeadDim];
  __shared__ float scratch[kHeadThreads / kLanes];
  const uint32_t row = blockIdx.y;
  const bool is_query = blockIdx.x < p.num_query_heads;
  const uint32_t h = is_query ? blockIdx.x : blockIdx.x - p.num_query_heads;
  const int64_t slot = pointer<const int64_t>(p.slot_mapping)[row];
  if (!is_query && (slot < 0 || slot >= p.num_slots)) return;
  const uint64_t source =
      is_query ? row * p.q_gate_stride + uint64_t{h} * 2 * p.head_dim : row * p.k_stride + uint64_t{h} * p.head_dim;
  const bool is_bf16 = (is_query ? p.q_is_bf16 : p.k_is_bf16) != 0;
  float sum = 0.0F;
  for (uint32_t d = threadIdx.x; d < p.head_dim; d += kHeadThreads) {
    const float value = load_float(is_query ? p.q_gate : p.k, source + d, is_bf16);
    head[d] = value;
    sum = fmaf(value, value, sum);
  }
  sum = group_sum<kHeadThreads>(sum, scratch);
  const float factor = 1.0F / sqrtf(sum / static_cast<float>(p.head_dim) + p.eps);
  const float* norm = pointer<const float>(is_query ? p.q_norm : p.k_norm);
  for (uint32_t d = threadIdx.x; d < p.head_dim; d += kHeadThreads) head[d] = head[d] * factor * (1.0F + norm[d]);
  __syncthreads();
  const float* cos_sin = pointer<const float>(p.cos_sin) + uint64_t{row} * p.rotary_dim;
  const uint64_t out = is_query ? (uint64_t{row} * p.num_query_heads + h) * p.head_dim
                                : (static_cast<uint64_t>(slot) * p.num_key_heads + h) * p.head_dim;
  for (uint32_t d = threadIdx.x; d < p.head_dim; d += kHeadThreads) {
    const float value = rotated(head, d, cos_sin, p.rotary_dim);
    if (is_query) {
      store_float(p.q, out + d, value, p.q_is_bf16 != 0);
      continue;
    }
    store_cache(p.k_cache, out + d, value, p.cache_format, p.k_scale);
    const uint64_t v = row * p.v_stride + uint64_t{h} * p.head_dim + d;
    store_cache(p.v_cache, out + d, load_float(p.v, v, p.v_is_bf16 != 0), p.cache_format, p.v_scale);
  }
}

}  // namespace
}  // namespace foretoken::gpu
