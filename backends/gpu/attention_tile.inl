// Keys and values of gated_attention on their way from a cache to the memory that a work group shares.
#pragma once

#include "backends/gpu/attention_params.h"
#include "backends/gpu/numeric.inl"

namespace foretoken::gpu {
namespace {

constexpr uint32_t kQueries = kAttentionQueries;
constexpr uint32_t kKeys = kAttentionKeys;
constexpr uint32_t kTileStride = kMaxAttentionHeadDim + 1;  // one more: lanes that read one element of each key meet no conflict
constexpr uint32_t kAttentionWarps = kAttentionThreads / kLanes;

/// How caches store elements, and 16 bytes of them at a time.
struct F32Cache : F32Element {
  static constexpr uint32_t kPerVector = 4;
  FORETOKEN_DEVICE static void unpack(const uint4& vector, float* out) {
    out[0] = bits_to_float(vector.x);
    out[1] = bits_to_float(vector.y);
    out[2] = bits_to_float(vector.z);
    out[3] = bits_to_float(vector.w);
  }
};
struct Bf16Cache : Bf16Element {
  static constexpr uint32_t kPerVector = 8;
  FORETOKEN_DEVICE static void unpack(const uint4& vector, float* out) {
    const uint32_t words[4] = {vector.x, vector.y, vector.z, vector.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      out[2 * i] = bits_to_float(words[i] << 16);
      out[2 * i + 1] = bits_to_float(words[i] & 0xffff0000U);
    }
  }
};
struct E4m3Cache : E4m3Element {
  static constexpr uint32_t kPerVector = 16;
  FORETOKEN_DEVICE static void unpack(const uint4& vector, float* out) {
    const uint32_t words[4] = {vector.x, vector.y, vector.z, vector.w};
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float2 two = decode_e4m3x2(words[i / 2] >> (i % 2 * 16) & 0xffffU);
      out[2 * i] = two.x;
      out[2 * i + 1] = two.y;
    }
  }
};

/// Calls `use` with the type of the cache's elements.
template <class Use>
FORETOKEN_DEVICE void with_cache(CacheFormat format, Use use) {
  switch (format) {
    case CacheFormat::kF32: use(F32Cache{}); break;
    case CacheFormat::kBF16: use(Bf16Cache{}); break;
    case CacheFormat::kE4M3: use(E4m3Cache{}); break;
  }
}

/// Memory that the threads of a work group share.
struct AttentionScratch {
  float tile[kKeys * kTileStride];  // keys, then the values that belong to them
  float queries[kQueries][kMaxAttentionHeadDim];
  float shares[kQueries][kKeys];
  uint64_t offsets[kKeys];  // of each position in the caches, in elements
  float rescale[kQueries];  // what a query's mixed values are multiplied by before these keys are added
  float maximum[kQueries];  // over a whole split
  float sum[kQueries];
};

/// A tile of keys or values on its way from a cache: vector threadIdx.x, threadIdx.x + kAttentionThreads, ... of it.
template <class Cache>
struct TileVectors {
  static constexpr uint32_t kCount = kKeys * kMaxAttentionHeadDim / Cache::kPerVector / kAttentionThreads;
  uint4 vector[kCount];

  FORETOKEN_DEVICE void load(uint64_t cache, uint32_t head_dim, uint32_t count, const AttentionScratch& scratch) {
    const uint32_t per_key = head_dim / Cache::kPerVector;
#pragma unroll
    for (uint32_t u = 0; u < kCount; ++u) {
      const uint32_t at = threadIdx.x + u * kAttentionThreads;
      if (at >= count * per_key) continue;
      const uint64_t element = scratch.offsets[at / per_key] + at % per_key * Cache::kPerVector;
      vector[u] = *pointer<const uint4>(cache + element * (sizeof(uint4) / Cache::kPerVector));
    }
  }
  FORETOKEN_DEVICE void store(uint32_t head_dim, uint32_t count, AttentionScratch& scratch) const {
    const uint32_t per_key = head_dim / Cache::kPerVector;
#pragma unroll
    for (uint32_t u = 0; u < kCount; ++u) {
      const uint32_t at = threadIdx.x + u * kAttentionThreads;
      if (at >= count * per_key) continue;
      float elements[Cache::kPerVector];
      Cache::unpack(vector[u], elements);
      float* target = scratch.tile + at / per_key * kTileStride + at % per_key * Cache::kPerVector;
#pragma unroll
      for (uint32_t i = 0; i < Cache::kPerVector; ++i) target[i] = elements[i];
    }
  }
};

/// A tile element by element, for heads that are no whole number of vectors.
template <class Cache>
FORETOKEN_DEVICE void copy_tile(uint64_t cache, uint32_t head_dim, uint32_t count, AttentionScratch& scratch) {
  for (uint32_t j = threadIdx.x / kLanes; j < count; j += kAttentionWarps) {
    for (uint32_t d = threadIdx.x % kLanes; d < head_dim; d += kLanes) {
      scratch.tile[j * kTileStride + d] = Cache::load(cache, scratch.offsets[j] + d);
    }
  }
}

}  // namespace
}  // namespace foretoken::gpu
