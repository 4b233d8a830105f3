// The routing of a few rows by one work group, with the bits of moe_topk (backends/gpu/moe.inl): a warp picks the experts of a
// row.
#pragma once

#include "backends/cuda/kernels/device.h"
#include "backends/cuda/kernels/moe_params.h"
#include "backends/gpu/numeric.inl"

namespace foretoken::cuda {
namespace {

using gpu::kLanes;
using gpu::pointer;

constexpr uint32_t kAllLanes = 0xffffffffU;

/// Larger numbers have larger keys; -infinity and experts that are not there have the smallest. Zeros of both signs are equal.
__device__ __forceinline__ uint32_t rank_key(float logit) {
  const uint32_t bits = gpu::float_bits(logit + 0.0F);
  return bits >> 31 != 0 ? ~bits : bits | 0x80000000U;
}

/// The lane's best expert that is not taken: of equal ones the first. Found by rounds of pairs, which do not wait for each other.
struct LaneBest {
  uint32_t key;
  uint32_t expert;

  template <uint32_t kLaneExperts>
  __device__ __forceinline__ void find(const uint32_t (&keys)[kLaneExperts]) {
    uint32_t best[kLaneExperts];
    uint32_t place[kLaneExperts];
#pragma unroll
    for (uint32_t i = 0; i < kLaneExperts; ++i) {
      best[i] = keys[i];
      place[i] = i;
    }
#pragma unroll
    for (uint32_t step = 1; step < kLaneExperts; step *= 2) {
#pragma unroll
      for (uint32_t i = 0; i < kLaneExperts; i += 2 * step) {
        const bool later = best[i + step] > best[i];
        best[i] = later ? best[i + step] : best[i];
        place[i] = later ? place[i + step] : place[i];
      }
    }
    key = best[0];
    expert = key == 0 ? kAllLanes : threadIdx.x % kLanes + place[0] * kLanes;
  }
};

/// What the picks of all rows leave in a work group, by pair: row * top_k + slot.
struct Picks {
  uint32_t id[kRouteFewPairs];
  float logit[kRouteFewPairs];
};

/// The lane's logits of row `row`, past the first-level cache: a kernel may read them before it waits, when they are there; NaN
/// counts as -infinity.
template <uint32_t kLaneExperts>
__device__ __forceinline__ void load_logits(const MoeRouteFewParams& p, uint32_t row, float (&values)[kLaneExperts]) {
  const float* logits = pointer<const float>(p.logits) + row * p.logits_stride;
#pragma unroll
  for (uint32_t i = 0; i < kLaneExperts; ++i) {
    const uint32_t e = threadIdx.x % kLanes + i * kLanes;
    const float logit = e < p.num_experts ? __ldcg(logits + e) : -INFINITY;
    values[i] = logit == logit ? logit : -INFINITY;
  }
}

/// Warp r picks the experts of row r, best first, out of kLaneExperts per lane at most. Few make short code, which is mostly run
/// from cold. Ends with a synchronisation of the work group.
template <uint32_t kLaneExperts>
__device__ __forceinline__ void pick_experts(const MoeRouteFewParams& p, Picks& picks) {
  const uint32_t row = threadIdx.x / kLanes;
  if (row < p.num_rows) {
    const uint32_t lane = threadIdx.x % kLanes;
    float values[kLaneExperts];
    load_logits(p, row, values);
    uint32_t keys[kLaneExperts];  // 0: taken, or not there
#pragma unroll
    for (uint32_t i = 0; i < kLaneExperts; ++i) keys[i] = lane + i * kLanes < p.num_experts ? rank_key(values[i]) : 0;
    LaneBest best;
    best.find(keys);
#pragma unroll 1
    for (uint32_t pair = row * p.top_k; pair < (row + 1) * p.top_k; ++pair) {
      const uint32_t key = __reduce_max_sync(kAllLanes, best.key);
      const uint32_t expert = __reduce_min_sync(kAllLanes, best.key == key ? best.expert : kAllLanes);
      if (lane != expert % kLanes) continue;
      picks.id[pair] = expert;
      picks.logit[pair] = gpu::bits_to_float(key >> 31 != 0 ? key & 0x7fffffffU : ~key);
#pragma unroll
      for (uint32_t i = 0; i < kLaneExperts; ++i) {
        if (i == expert / kLanes) keys[i] = 0;
      }
      best.find(keys);
    }
  }
  __syncthreads();
}

/// Calls take(pair, weight) for the picks of row r in lanes of warp r.
template <uint32_t kLaneExperts, class Take>
__device__ __forceinline__ void for_each_pick(const MoeRouteFewParams& p, const Picks& picks, const Take& take) {
  const uint32_t lane = threadIdx.x % kLanes;
  const uint32_t row = threadIdx.x / kLanes;
  if (row >= p.num_rows) return;
  const uint32_t first = row * p.top_k;
  const float largest = picks.logit[first];
  float sum = 0.0F;
  if (p.renormalise != 0) {
    // Lanes take exp of a pick each; all add them up in the order of the picks.
    for (uint32_t base = 0; base < p.top_k; base += kLanes) {
      const uint32_t count = gpu::smaller<uint32_t>(kLanes, p.top_k - base);
      const float mine = lane < count ? expf(picks.logit[first + base + lane] - largest) : 0.0F;
      for (uint32_t s = 0; s < count; ++s) sum += __shfl_sync(kAllLanes, mine, static_cast<int>(s));
    }
  } else {
    float values[kLaneExperts];
    load_logits(p, row, values);
#pragma unroll
    for (uint32_t i = 0; i < kLaneExperts; ++i) sum += expf(values[i] - largest);
    sum = gpu::lane_sum(sum);
  }
  for (uint32_t s = lane; s < p.top_k; s += kLanes) take(first + s, expf(picks.logit[first + s] - largest) / sum);
}

/// Warp r writes the experts of row r and their weights.
template <uint32_t kLaneExperts>
__device__ __forceinline__ void write_picks(const MoeRouteFewParams& p, const Picks& picks) {
  for_each_pick<kLaneExperts>(p, picks, [&](uint32_t pair, float weight) {
    pointer<int32_t>(p.topk_ids)[pair] = static_cast<int32_t>(picks.id[pair]);
    pointer<float>(p.topk_weights)[pair] = weight;
  });
}

/// Writes where the pairs of each expert begin, and the pairs by expert.
__device__ __forceinline__ void write_plan(const MoeRouteFewParams& p, const Picks& picks) {
  const uint32_t num_pairs = p.num_rows * p.top_k;
  for (uint32_t e = threadIdx.x; e <= p.num_experts; e += kRouteFewThreads) {
    int32_t before = 0;
#pragma unroll 4
    for (uint32_t i = 0; i < num_pairs; ++i) before += picks.id[i] < e ? 1 : 0;
    pointer<int32_t>(p.expert_offsets)[e] = before;
  }
  for (uint32_t pair = threadIdx.x; pair < num_pairs; pair += kRouteFewThreads) {
    const uint32_t id = picks.id[pair];
    uint32_t place = 0;
#pragma unroll 4
    for (uint32_t i = 0; i < num_pairs; ++i) place += picks.id[i] < id || (picks.id[i] == id && i < pair) ? 1 : 0;
    pointer<int32_t>(p.expert_pairs)[place] = static_cast<int32_t>(pair);
  }
}

}  // namespace
}  // namespace foretoken::cuda
