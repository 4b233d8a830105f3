// moe_route and the join of moe_experts_down (core/ops/moe.h).
#pragma once

#include "backends/gpu/moe_params.h"
#include "backends/gpu/numeric.inl"

namespace foretoken::gpu {
namespace {

constexpr uint32_t kLaneExperts = kMaxExperts / kLanes;

/// Whether (value, index) comes after `last` in the order of picks: smaller values later, equal ones by index.
FORETOKEN_DEVICE bool is_after(float value, int32_t index, Candidate last) {
  if (last.index < 0) return true;
  return value < last.value || (value == last.value && index > last.index);
}

/// A warp per row: each pick is the best of those after the pick before it. NaN counts as -infinity.
__global__ void __launch_bounds__(kRouteThreads) moe_topk(const MoeTopkParams p) {
  begin_kernel();
  const uint32_t row = blockIdx.x * (kRouteThreads / kLanes) + threadIdx.x / kLanes;
  const uint32_t lane = threadIdx.x % kLanes;
  if (row >= p.num_rows) return;
  const float* logits = pointer<const float>(p.logits) + row * p.logits_stride;
  auto* ids = pointer<int32_t>(p.topk_ids) + uint64_t{row} * p.top_k;
  auto* weights = pointer<float>(p.topk_weights) + uint64_t{row} * p.top_k;
  float values[kLaneExperts];
#pragma unroll
  for (uint32_t i = 0; i < kLaneExperts; ++i) {
    const uint32_t e = lane + i * kLanes;
    const float logit = e < p.num_experts ? logits[e] : -INFINITY;
    values[i] = logit == logit ? logit : -INFINITY;
  }
  Candidate last{0.0F, -1};
  float largest = 0.0F;
  float picked = 0.0F;
#pragma unroll 1
  for (uint32_t s = 0; s < p.top_k; ++s) {
    Candidate best{0.0F, -1};
#pragma unroll
    for (uint32_t i = 0; i < kLaneExperts; ++i) {
      const auto e = static_cast<int32_t>(lane + i * kLanes);
      const bool exists = e < static_cast<int32_t>(p.num_experts);
      if (exists && is_after(values[i], e, last)) best = better(best, Candidate{values[i], e});
    }
    last = lane_best(best);
    if (s == 0) largest = last.value;
    const float weight = expf(last.value - largest);
    picked += weight;
    if (lane == 0) {
      ids[s] = last.index;
      weights[s] = weight;
    }
  }
  float sum = 0.0F;
  if (p.renormalise == 0) {
#pragma unroll
    for (uint32_t i = 0; i < kLaneExperts; ++i) sum += expf(values[i] - largest);
    sum = lane_sum(sum);
  }
  if (lane != 0) return;
  for (uint32_t s = 0; s < p.top_k; ++s) weights[s] /= p.renormalise != 0 ? picked : sum;
}

/// Thread e counts and lists the pairs of experts e, e + kGroupThreads, ...: ascending within each.
__global__ void __launch_bounds__(kGroupThreads) moe_group(const MoeGroupParams p) {
  begin_kernel();
  __shared__ int32_t warp_ends[kGroupThreads / kLanes];
  const auto* ids = pointer<const int32_t>(p.topk_ids);
  auto* offsets = pointer<int32_t>(p.expert_offsets);
  auto* pairs = pointer<int32_t>(p.expert_pairs);
  const uint32_t lane = threadIdx.x % kLanes;
  int32_t begin = 0;  // pairs of the experts before this round's
  for (uint32_t base = 0; base < p.num_experts; base += kGroupThreads) {
    const uint32_t expert = base + threadIdx.x;
    int32_t count = 0;
    for (uint32_t i = 0; i < p.num_pairs && expert < p.num_experts; ++i) count += ids[i] == static_cast<int32_t>(expert) ? 1 : 0;
    int32_t end = count;  // inclusive sum over the lanes, then over the warps before
    for (uint32_t step = 1; step < kLanes; step *= 2) {
      const int32_t below = lane_up(end, step);
      if (lane >= step) end += below;
    }
    __syncthreads();
    if (lane == kLanes - 1) warp_ends[threadIdx.x / kLanes] = end;
    __syncthreads();
    int32_t total = 0;
    for (uint32_t warp = 0; warp < kGroupThreads / kLanes; ++warp) {
      if (warp < threadIdx.x / kLanes) end += warp_ends[warp];
      total += warp_ends[warp];
    }
    if (expert < p.num_experts) {
      int32_t at = begin + end - count;
      offsets[expert] = at;
      for (uint32_t i = 0; i < p.num_pairs && count > 0; ++i) {
        if (ids[i] == static_cast<int32_t>(expert)) pairs[at++] = static_cast<int32_t>(i);
      }
    }
    begin += total;
  }
  if (threadIdx.x == 0) offsets[p.num_experts] = begin;
}

__global__ void __launch_bounds__(kJoinThreads) moe_join(const MoeJoinParams p) {
  begin_kernel();
  const uint32_t row = blockIdx.y;
  const uint32_t h = blockIdx.x * kJoinThreads + threadIdx.x;
  if (h >= p.hidden_size) return;
  const float* products = pointer<const float>(p.products) + uint64_t{row} * p.top_k * p.hidden_size + h;
  const float* weights = pointer<const float>(p.topk_weights) + uint64_t{row} * p.top_k;
  float sum = 0.0F;
#pragma unroll 4
  for (uint32_t s = 0; s < p.top_k; ++s) sum = fmaf(weights[s], products[uint64_t{s} * p.hidden_size], sum);
  if (p.shared != 0) {
    const float gate = sigmoid(pointer<const float>(p.shared_gate)[row * p.shared_gate_stride]);
    sum = fmaf(gate, load_float(p.shared, row * p.shared_stride + h, p.shared_is_bf16 != 0), sum);
  }
  store_float(p.out, row * p.out_stride + h, sum, p.out_is_bf16 != 0);
}

}  // namespace
}  // namespace foretoken::gpu
