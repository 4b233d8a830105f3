// RMS norms and rotary embedding. Every item is one row, or one head of a row, so rows cannot influence each other.
#include "backends/cpu/kernels/norm_params.h"

#include <cmath>

#include "backends/cpu/kernels/e4m3_simd.h"
#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/kernels/norm_rows.h"

namespace foretoken::cpu::FORETOKEN_CPU_ISA {
namespace {

/// out = x * scale * (1 + weight); x holds float32 or BF16.
template <class T>
FORETOKEN_SIMD_INLINE void scale_zero_centred(const T* x, const float* weight, float scale, float* out, size_t n) {
  const F32x16 scales = F32x16::broadcast(scale);
  const F32x16 one = F32x16::broadcast(1.0F);
  for_each_vector(n, [&](size_t i, size_t count) {
    store_lanes(load_lanes(x + i, count) * scales * (one + load_lanes(weight + i, count)), out + i, count);
  });
}

/// out = rms_norm(x), zero-centred weight; out may be x.
template <class T>
FORETOKEN_SIMD_INLINE void normalise(const T* x, const float* weight, float eps, float* out, size_t n) {
  const float scale = inverse_rms(n, eps, [&](size_t i, size_t count) { return load_lanes(x + i, count); });
  scale_zero_centred(x, weight, scale, out, n);
}

/// Rotates the pairs (i, i + R/2) of one head.
FORETOKEN_SIMD_INLINE void rotate(float* head, const float* cos_sin, size_t rotary_dim) {
  const size_t half = rotary_dim / 2;
  for_each_vector(half, [&](size_t i, size_t count) {
    const F32x16 a = load_lanes(head + i, count);
    const F32x16 b = load_lanes(head + half + i, count);
    const F32x16 cosine = load_lanes(cos_sin + i, count);
    const F32x16 sine = load_lanes(cos_sin + half + i, count);
    store_lanes(a * cosine - b * sine, head + i, count);
    store_lanes(b * cosine + a * sine, head + half + i, count);
  });
}

void rms_norm(const RmsNormParams& p, uint32_t begin, uint32_t end) {
  for (size_t row = begin; row < end; ++row) {
    normalise(p.x + row * p.x_stride, p.weight, p.eps, p.out + row * p.out_stride, p.hidden_size);
  }
}

void add_rms_norm(const AddRmsNormParams& p, uint32_t begin, uint32_t end) {
  for (size_t row = begin; row < end; ++row) {
    const float* x = p.x + row * p.x_stride;
    float* residual = p.residual + row * p.residual_stride;
    const float scale = inverse_rms(p.hidden_size, p.eps, [&](size_t i, size_t count) {
      const F32x16 sum = load_lanes(residual + i, count) + load_lanes(x + i, count);
      store_lanes(sum, residual + i, count);
      return sum;
    });
    scale_zero_centred(residual, p.weight, scale, p.out + row * p.out_stride, p.hidden_size);
  }
}

void mtp_input(const MtpInputParams& p, uint32_t begin, uint32_t end) {
  for (size_t item = begin; item < end; ++item) {
    const size_t row = item / 2;
    const bool is_hidden = item % 2 == 1;
    float* out = p.out + row * p.out_stride + (is_hidden ? p.hidden_size : 0);
    int64_t source = is_hidden ? static_cast<int64_t>(row) : p.ids[row];
    if (is_hidden && p.hidden_rows != nullptr) source = p.hidden_rows[row];
    if (source < 0 || static_cast<size_t>(source) >= (is_hidden ? p.num_hidden : p.vocab_size)) {
      for (size_t i = 0; i < p.hidden_size; ++i) out[i] = __builtin_nanf("");
      continue;
    }
    const size_t first = static_cast<size_t>(source) * (is_hidden ? p.hidden_stride : p.hidden_size);
    if (is_hidden) {
      normalise(p.hidden + first, p.hidden_norm, p.eps, out, p.hidden_size);
    } else if (p.table_is_bf16) {
      normalise(static_cast<const uint16_t*>(p.table) + first, p.embedding_norm, p.eps, out, p.hidden_size);
    } else {
      normalise(static_cast<const float*>(p.table) + first, p.embedding_norm, p.eps, out, p.hidden_size);
    }
  }
}

void rope_table(const RopeTableParams& p, uint32_t begin, uint32_t end) {
  constexpr size_t kTile = 64;  // frequencies are computed once for all rows of a range, kTile of them at a time
  const size_t half = p.rotary_dim / 2;
  for (size_t first = 0; first < half; first += kTile) {
    const size_t count = half - first < kTile ? half - first : kTile;
    double inverse_frequency[kTile];
    for (size_t i = 0; i < count; ++i) {
      const double exponent = -2.0 * static_cast<double>(first + i) / static_cast<double>(p.rotary_dim);
      inverse_frequency[i] = std::pow(p.theta, exponent);
    }
    for (size_t row = begin; row < end; ++row) {
      float* out = p.cos_sin + row * p.rotary_dim + first;
      for (size_t i = 0; i < count; ++i) {
        const double angle = static_cast<double>(p.positions[row]) * inverse_frequency[i];
        out[i] = static_cast<float>(std::cos(angle));
        out[half + i] = static_cast<float>(std::sin(angle));
      }
    }
  }
}

void rope(const RopeParams& p, uint32_t begin, uint32_t end) {
  for (size_t item = begin; item < end; ++item) {
    const size_t row = item / p.num_heads;
    rotate(p.x + row * p.x_stride + item % p.num_heads * p.head_dim, p.cos_sin + row * p.rotary_dim, p.rotary_dim);
  }
}

/// Writes one head to element `offset` of a cache; `scale` is that of E4M3 codes.
FORETOKEN_SIMD_INLINE void write_cache(const float* head, void* cache, CacheDType dtype, const float* scale, size_t offset,
                                       size_t n) {
  switch (dtype) {
    case CacheDType::kF32: std::memcpy(static_cast<float*>(cache) + offset, head, n * sizeof(float)); return;
    case CacheDType::kBF16: {
      uint16_t* out = static_cast<uint16_t*>(cache) + offset;
      for_each_vector(n, [&](size_t i, size_t count) {
        uint16_t lanes[kLanes];
        store_bf16(load_lanes(head + i, count), lanes);
        std::memcpy(out + i, lanes, count * sizeof(uint16_t));
      });
      return;
    }
    case CacheDType::kE4M3: {
      uint8_t* out = static_cast<uint8_t*>(cache) + offset;
      const F32x16 scales = F32x16::broadcast(*scale);
      for_each_vector(n, [&](size_t i, size_t count) {
        uint8_t lanes[kLanes];
        store_e4m3(load_lanes(head + i, count) / scales, lanes);
        std::memcpy(out + i, lanes, count);
      });
      return;
    }
  }
}

void qk_norm_rope_cache(const QkNormRopeCacheParams& p, uint32_t begin, uint32_t end) {
  const size_t num_heads = p.num_query_heads + p.num_key_heads;
  for (size_t item = begin; item < end; ++item) {
    const size_t row = item / num_heads;
    const size_t head = item % num_heads;
    const float* cos_sin = p.cos_sin + row * p.rotary_dim;
    if (head < p.num_query_heads) {
      float* q = p.q + (row * p.num_query_heads + head) * p.head_dim;
      normalise(p.q_gate + row * p.q_gate_stride + head * 2 * p.head_dim, p.q_norm, p.eps, q, p.head_dim);
      rotate(q, cos_sin, p.rotary_dim);
      continue;
    }
    const int64_t slot = p.slot_mapping[row];
    if (slot < 0 || static_cast<size_t>(slot) >= p.num_slots) continue;
    const size_t key_head = head - p.num_query_heads;
    const size_t offset = (static_cast<size_t>(slot) * p.num_key_heads + key_head) * p.head_dim;
    float k[kMaxHeadDim];
    normalise(p.k + row * p.k_stride + key_head * p.head_dim, p.k_norm, p.eps, k, p.head_dim);
    rotate(k, cos_sin, p.rotary_dim);
    write_cache(k, p.k_cache, p.cache_dtype, p.k_scale, offset, p.head_dim);
    write_cache(p.v + row * p.v_stride + key_head * p.head_dim, p.v_cache, p.cache_dtype, p.v_scale, offset, p.head_dim);
  }
}

constexpr KernelEntry kEntries[] = {
    kernel_entry<RmsNormParams, rms_norm>("rms_norm"),
    kernel_entry<AddRmsNormParams, add_rms_norm>("add_rms_norm"),
    kernel_entry<MtpInputParams, mtp_input>("mtp_input"),
    kernel_entry<RopeTableParams, rope_table>("rope_table"),
    kernel_entry<RopeParams, rope>("rope"),
    kernel_entry<QkNormRopeCacheParams, qk_norm_rope_cache>("qk_norm_rope_cache"),
};

}  // namespace

void add_norm_kernels(std::vector<KernelEntry>& list) { append(list, kEntries); }

}  // namespace foretoken::cpu::FORETOKEN_CPU_ISA
