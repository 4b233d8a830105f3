// rms_norm, add_rms_norm, mtp_input, rope_table, rope, qk_norm_rope_cache (core/ops/rms_norm.h, mtp_input.h, rope.h).
#pragma once

#include "backends/gpu/norm_params.h"
#include "backends/gpu/numeric.inl"

namespace foretoken::gpu {
namespace {

constexpr uint32_t kNormHeld = 10;  // elements of a row that a thread keeps: rows up to kNormHeld * kNormThreads are read once

FORETOKEN_DEVICE void store_norm(const RmsNormParams& p, uint32_t h, float value, float factor, float weight) {
  store_float(p.out, blockIdx.x * p.out_stride + h, value * factor * (1.0F + weight), p.out_is_bf16 != 0);
}

/// Row blockIdx.x of the result. `x_of`, called after the wait, gives the row of x and whether there is one; without it the
/// result is NaN. Every thread calls it, and gets the same.
template <class RowOf>
FORETOKEN_DEVICE void norm_row(const RmsNormParams& p, const RowOf& x_of) {
  __shared__ float scratch[kNormThreads / kLanes];
  const float* weights = pointer<const float>(p.weight);
  const auto store_residual = [&p](uint32_t h, float value) {
    if (p.residual != 0) store_float(p.residual, blockIdx.x * p.residual_stride + h, value, p.residual_is_bf16 != 0);
  };
  float weight[kNormHeld];
#pragma unroll
  for (uint32_t i = 0; i < kNormHeld; ++i) {
    const uint32_t h = threadIdx.x + i * kNormThreads;
    weight[i] = h < p.hidden_size ? weights[h] : 0.0F;
  }
  wait_for_previous();
  float held[kNormHeld];
  uint64_t x = 0;
  if (!x_of(x)) {
    for (uint32_t h = threadIdx.x; h < p.hidden_size; h += kNormThreads) store_norm(p, h, NAN, 1.0F, 0.0F);
    return;
  }
  x *= p.x_stride;
  const uint64_t residual = blockIdx.x * p.residual_stride;
  with_element(p.x_is_bf16, [&](auto element) {
#pragma unroll
    for (uint32_t i = 0; i < kNormHeld; ++i) {
      const uint32_t h = threadIdx.x + i * kNormThreads;
      held[i] = h < p.hidden_size ? element.load(p.x, x + h) : 0.0F;
    }
  });
  if (p.residual != 0) {
    with_element(p.residual_is_bf16, [&](auto element) {
#pragma unroll
      for (uint32_t i = 0; i < kNormHeld; ++i) {
        const uint32_t h = threadIdx.x + i * kNormThreads;
        held[i] += h < p.hidden_size ? element.load(p.residual, residual + h) : 0.0F;
      }
    });
  }
  float sum = 0.0F;
#pragma unroll
  for (uint32_t i = 0; i < kNormHeld; ++i) sum = fmaf(held[i], held[i], sum);
  for (uint32_t h = threadIdx.x + kNormHeld * kNormThreads; h < p.hidden_size; h += kNormThreads) {
    float value = load_float(p.x, x + h, p.x_is_bf16 != 0);
    if (p.residual != 0) value += load_float(p.residual, residual + h, p.residual_is_bf16 != 0);
    store_residual(h, value);
    sum = fmaf(value, value, sum);
  }
  sum = group_sum<kNormThreads>(sum, scratch);
  const float factor = 1.0F / sqrtf(sum / static_cast<float>(p.hidden_size) + p.eps);
#pragma unroll
  for (uint32_t i = 0; i < kNormHeld; ++i) {
    const uint32_t h = threadIdx.x + i * kNormThreads;
    if (h >= p.hidden_size) continue;
    store_residual(h, held[i]);
    store_norm(p, h, held[i], factor, weight[i]);
  }
  for (uint32_t h = threadIdx.x + kNormHeld * kNormThreads; h < p.hidden_size; h += kNormThreads) {
    const float value = p.residual != 0 ? load_float(p.residual, residual + h, p.residual_is_bf16 != 0)
                                        : load_float(p.x, x + h, p.x_is_bf16 != 0);
    store_norm(p, h, value, factor, weights[h]);
  }
}

__global__ void __launch_bounds__(kNormThreads) rms_norm(const RmsNormParams p) {
  allow_next();
  norm_row(p, [](uint64_t& row) {
    row = blockIdx.x;
    return true;
  });
}

/// rms_norm of rows of whole fours, each at a multiple of four elements, that the threads of a group can keep.
__global__ void __launch_bounds__(kNormThreads) rms_norm_quads(const RmsNormParams p) {
  __shared__ float scratch[kNormThreads / kLanes];
  allow_next();
  const uint32_t quads = p.hidden_size / 4;
  float4 weight[kNormQuads];
#pragma unroll
  for (uint32_t i = 0; i < kNormQuads; ++i) {
    const uint32_t q = threadIdx.x + i * kNormThreads;
    weight[i] = q < quads ? F32Element::load_four(p.weight, q * 4) : float4{0.0F, 0.0F, 0.0F, 0.0F};
  }
  wait_for_previous();
  float4 held[kNormQuads];
  with_element(p.x_is_bf16, [&](auto element) {
#pragma unroll
    for (uint32_t i = 0; i < kNormQuads; ++i) {
      const uint32_t q = threadIdx.x + i * kNormThreads;
      held[i] = q < quads ? element.load_four(p.x, blockIdx.x * p.x_stride + q * 4) : float4{0.0F, 0.0F, 0.0F, 0.0F};
    }
  });
  if (p.residual != 0) {
    with_element(p.residual_is_bf16, [&](auto element) {
#pragma unroll
      for (uint32_t i = 0; i < kNormQuads; ++i) {
        const uint32_t q = threadIdx.x + i * kNormThreads;
        if (q >= quads) continue;
        const float4 four = element.load_four(p.residual, blockIdx.x * p.residual_stride + q * 4);
        held[i] = {held[i].x + four.x, held[i].y + four.y, held[i].z + four.z, held[i].w + four.w};
        element.store_four(p.residual, blockIdx.x * p.residual_stride + q * 4, held[i]);
      }
    });
  }
  float sum = 0.0F;
#pragma unroll
  for (uint32_t i = 0; i < kNormQuads; ++i) {
    const float4 v = held[i];
    sum += fmaf(v.x, v.x, v.y * v.y) + fmaf(v.z, v.z, v.w * v.w);
  }
  sum = group_sum<kNormThreads>(sum, scratch);
  const float factor = 1.0F / sqrtf(sum / static_cast<float>(p.hidden_size) + p.eps);
  with_element(p.out_is_bf16, [&](auto element) {
#pragma unroll
    for (uint32_t i = 0; i < kNormQuads; ++i) {
      const uint32_t q = threadIdx.x + i * kNormThreads;
      const float4 v = held[i];
      const float4 w = weight[i];
      const float4 four{v.x * factor * (1.0F + w.x), v.y * factor * (1.0F + w.y), v.z * factor * (1.0F + w.z),
                        v.w * factor * (1.0F + w.w)};
      if (q < quads) element.store_four(p.out, blockIdx.x * p.out_stride + q * 4, four);
    }
  });
}

__global__ void __launch_bounds__(kNormThreads) mtp_input(const MtpInputParams p) {
  allow_next();
  const bool is_hidden = blockIdx.y == 1;
  const uint64_t half_bytes = uint64_t{p.hidden_size} * (p.out_is_bf16 != 0 ? sizeof(uint16_t) : sizeof(float));
  RmsNormParams half;
  half.x = is_hidden ? p.hidden : p.table;
  half.residual = 0;
  half.weight = is_hidden ? p.hidden_norm : p.embedding_norm;
  half.out = p.out + (is_hidden ? half_bytes : 0);
  half.x_stride = is_hidden ? p.hidden_stride : p.hidden_size;
  half.residual_stride = 0;
  half.out_stride = p.out_stride;
  half.hidden_size = p.hidden_size;
  half.eps = p.eps;
  half.x_is_bf16 = is_hidden ? p.hidden_is_bf16 : p.table_is_bf16;
  half.residual_is_bf16 = 0;
  half.out_is_bf16 = p.out_is_bf16;
  norm_row(half, [&](uint64_t& row) {
    row = blockIdx.x;
    const uint64_t indices = is_hidden ? p.hidden_rows : p.ids;
    if (indices != 0) row = static_cast<uint32_t>(pointer<const int32_t>(indices)[blockIdx.x]);
    return row < (is_hidden ? p.num_hidden : p.vocab_size);  // as unsigned, a negative one is too large
  });
}

constexpr uint32_t kHeadHeld = kMaxHeadDim / kHeadThreads;  // elements of a head that a thread keeps

/// Loads element threadIdx.x + i * kHeadThreads of a head into values[i].
FORETOKEN_DEVICE void load_head(uint64_t base, uint64_t first, uint32_t head_dim, uint32_t is_bf16, float (&values)[kHeadHeld]) {
  with_element(is_bf16, [&](auto element) {
#pragma unroll
    for (uint32_t i = 0; i < kHeadHeld; ++i) {
      const uint32_t d = threadIdx.x + i * kHeadThreads;
      values[i] = d < head_dim ? element.load(base, first + d) : 0.0F;
    }
  });
}

FORETOKEN_DEVICE float head_factor(const float (&values)[kHeadHeld], uint32_t head_dim, float eps, float* scratch) {
  float sum = 0.0F;
#pragma unroll
  for (uint32_t i = 0; i < kHeadHeld; ++i) sum = fmaf(values[i], values[i], sum);
  return 1.0F / sqrtf(group_sum<kHeadThreads>(sum, scratch) / static_cast<float>(head_dim) + eps);
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
  allow_next();
  __shared__ float head[kMaxHeadDim];
  __shared__ float scratch[kHeadThreads / kLanes];
  const uint32_t row = blockIdx.y;
  const bool is_query = blockIdx.x < p.num_query_heads;
  const uint32_t h = is_query ? blockIdx.x : blockIdx.x - p.num_query_heads;
  float norm[kHeadHeld];
  load_head(is_query ? p.q_norm : p.k_norm, 0, p.head_dim, 0, norm);
  wait_for_previous();
  const int64_t slot = pointer<const int64_t>(p.slot_mapping)[row];
  if (!is_query && (slot < 0 || slot >= p.num_slots)) return;
  const uint64_t head_at = uint64_t{h} * p.head_dim;
  float value[kHeadHeld];
  float v[kHeadHeld] = {};
  if (is_query) {
    load_head(p.q_gate, row * p.q_gate_stride + 2 * head_at, p.head_dim, p.q_gate_is_bf16, value);
  } else {
    load_head(p.k, row * p.k_stride + head_at, p.head_dim, p.k_is_bf16, value);
    load_head(p.v, row * p.v_stride + head_at, p.head_dim, p.v_is_bf16, v);
  }
  const float factor = head_factor(value, p.head_dim, p.eps, scratch);
#pragma unroll
  for (uint32_t i = 0; i < kHeadHeld; ++i) {
    const uint32_t d = threadIdx.x + i * kHeadThreads;
    if (d < p.head_dim) head[d] = value[i] * factor * (1.0F + norm[i]);
  }
  __syncthreads();
  const float* cos_sin = pointer<const float>(p.cos_sin) + uint64_t{row} * p.rotary_dim;
  const uint64_t out = is_query ? (uint64_t{row} * p.num_query_heads + h) * p.head_dim
                                : (static_cast<uint64_t>(slot) * p.num_key_heads + h) * p.head_dim;
#pragma unroll
  for (uint32_t i = 0; i < kHeadHeld; ++i) {
    const uint32_t d = threadIdx.x + i * kHeadThreads;
    if (d >= p.head_dim) continue;
    const float turned = rotated(head, d, cos_sin, p.rotary_dim);
    if (is_query) {
      store_float(p.q, out + d, turned, p.q_is_bf16 != 0);
    } else {
      store_cache(p.k_cache, out + d, turned, p.cache_format, p.k_scale);
      store_cache(p.v_cache, out + d, v[i], p.cache_format, p.v_scale);
    }
  }
}

}  // namespace
}  // namespace foretoken::gpu
