// moe_route for a few rows in one launch of one work group, with the bits of moe_topk (backends/gpu/moe.inl).
#include "backends/cuda/kernels/device.h"
#include "backends/cuda/kernels/kernels.h"
#include "backends/cuda/kernels/moe_params.h"
#include "backends/gpu/numeric.inl"

namespace foretoken::cuda {
namespace {

using gpu::kLanes;
using gpu::pointer;

constexpr uint32_t kLaneExperts = kRouteFewExperts / kLanes;
constexpr uint32_t kAllLanes = 0xffffffffU;

/// Larger numbers have larger keys; -infinity and experts that are not there have the smallest. Zeros of both signs are equal.
__device__ __forceinline__ uint32_t rank_key(float logit) {
  const uint32_t bits = gpu::float_bits(logit + 0.0F);
  return bits >> 31 != 0 ? ~bits : bits | 0x80000000U;
}

/// The lane's best expert that is not taken: of equal ones the first.
struct LaneBest {
  uint32_t key;
  uint32_t expert;

  __device__ __forceinline__ void find(const uint32_t (&keys)[kLaneExperts]) {
    key = 0;
    expert = kAllLanes;
#pragma unroll
    for (uint32_t i = 0; i < kLaneExperts; ++i) {
      if (keys[i] > key) {
        key = keys[i];
        expert = threadIdx.x % kLanes + i * kLanes;
      }
    }
  }
};

/// A warp picks the experts of its row, best first, into `ids`.
__device__ __forceinline__ void pick_experts(const MoeRouteFewParams& p, uint32_t row, uint32_t* ids) {
  const uint32_t lane = threadIdx.x % kLanes;
  const float* logits = pointer<const float>(p.logits) + row * p.logits_stride;
  float values[kLaneExperts];
  uint32_t keys[kLaneExperts];  // 0: taken, or not there
#pragma unroll
  for (uint32_t i = 0; i < kLaneExperts; ++i) {
    const uint32_t e = lane + i * kLanes;
    const float logit = e < p.num_experts ? logits[e] : -INFINITY;
    values[i] = logit == logit ? logit : -INFINITY;
    keys[i] = e < p.num_experts ? rank_key(values[i]) : 0;
  }
  auto* topk_ids = pointer<int32_t>(p.topk_ids) + uint64_t{row} * p.top_k;
  auto* topk_weights = pointer<float>(p.topk_weights) + uint64_t{row} * p.top_k;
  LaneBest best;
  best.find(keys);
  float largest = 0.0F;
  float picked = 0.0F;
#pragma unroll 1
  for (uint32_t s = 0; s < p.top_k; ++s) {
    const uint32_t key = __reduce_max_sync(kAllLanes, best.key);
    const uint32_t expert = __reduce_min_sync(kAllLanes, best.key == key ? best.expert : kAllLanes);
    const float value = gpu::bits_to_float(key >> 31 != 0 ? key & 0x7fffffffU : ~key);
    if (s == 0) largest = value;
    const float weight = expf(value - largest);
    picked += weight;
    if (lane == 0) {
      ids[s] = expert;
      topk_ids[s] = static_cast<int32_t>(expert);
      topk_weights[s] = weight;
    }
    if (lane != expert % kLanes) continue;
#pragma unroll
    for (uint32_t i = 0; i < kLaneExperts; ++i) {
      if (i == expert / kLanes) keys[i] = 0;
    }
    best.find(keys);
  }
  float sum = picked;
  if (p.renormalise == 0) {
    sum = 0.0F;
#pragma unroll
    for (uint32_t i = 0; i < kLaneExperts; ++i) sum += expf(values[i] - largest);
    sum = gpu::lane_sum(sum);
  }
  if (lane != 0) return;
  for (uint32_t s = 0; s < p.top_k; ++s) topk_weights[s] /= sum;
}

__global__ void __launch_bounds__(kRouteFewThreads) moe_route_few(const MoeRouteFewParams p) {
  gpu::begin_kernel();
  __shared__ uint32_t ids[kRouteFewPairs];
  const uint32_t row = threadIdx.x / kLanes;
  if (row < p.num_rows) pick_experts(p, row, ids + row * p.top_k);
  __syncthreads();
  const uint32_t num_pairs = p.num_rows * p.top_k;
  auto* offsets = pointer<int32_t>(p.expert_offsets);
  for (uint32_t e = threadIdx.x; e <= p.num_experts; e += kRouteFewThreads) {
    int32_t before = 0;
    for (uint32_t i = 0; i < num_pairs; ++i) before += ids[i] < e ? 1 : 0;
    offsets[e] = before;
  }
  auto* pairs = pointer<int32_t>(p.expert_pairs);
  for (uint32_t pair = threadIdx.x; pair < num_pairs; pair += kRouteFewThreads) {
    const uint32_t id = ids[pair];
    uint32_t place = 0;
    for (uint32_t i = 0; i < num_pairs; ++i) place += ids[i] < id || (ids[i] == id && i < pair) ? 1 : 0;
    pairs[place] = static_cast<int32_t>(pair);
  }
}

}  // namespace

void add_moe_route_kernels(gpu::KernelList& list) {
  list.push_back(gpu::kernel_entry("moe_route_few", moe_route_few, kRouteFewThreads));
}

}  // namespace foretoken::cuda
