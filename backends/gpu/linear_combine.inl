// The end of linear_argmax: the parts of each row, or its logits, become its token and its log-probability.
#pragma once

#include "backends/gpu/linear_params.h"
#include "backends/gpu/row_best.inl"

namespace foretoken::gpu {
namespace {

/// Puts together what the threads of work group t have seen of row t, and stores its results.
FORETOKEN_DEVICE void finish_row(RowBest row, uint64_t token_map, uint64_t token_ids, uint64_t logprobs) {
  __shared__ RowBest warps[kCombineThreads / kLanes];
  row.best = lane_best(row.best);
  for (int mask = kLanes / 2; mask > 0; mask /= 2) row.add(lane_xor(row.maximum, mask), lane_xor(row.sum, mask));
  if (threadIdx.x % kLanes == 0) warps[threadIdx.x / kLanes] = row;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (uint32_t w = 1; w < kCombineThreads / kLanes; ++w) {
    row.best = better(row.best, warps[w].best);
    row.add(warps[w].maximum, warps[w].sum);
  }
  const int32_t index = row.best.index < 0 ? 0 : row.best.index;
  pointer<int32_t>(token_ids)[blockIdx.x] = token_map == 0 ? index : pointer<const int32_t>(token_map)[index];
  if (logprobs != 0) pointer<float>(logprobs)[blockIdx.x] = row.best.value - (row.maximum + logf(row.sum));
}

/// Work group t: the parts of row t, in a fixed order.
__global__ void __launch_bounds__(kCombineThreads) linear_argmax_combine(const LinearArgmaxCombineParams p) {
  begin_kernel();
  const uint64_t first = uint64_t{blockIdx.x} * p.num_parts;
  RowBest row = RowBest::nothing();
  for (uint32_t i = threadIdx.x; i < p.num_parts; i += kCombineThreads) {
    const float maximum = pointer<const float>(p.part_max)[first + i];
    row.best = better(row.best, Candidate{maximum, pointer<const int32_t>(p.part_id)[first + i]});
    if (p.logprobs != 0) row.add(maximum, pointer<const float>(p.part_sum)[first + i]);
  }
  finish_row(row, p.token_map, p.token_ids, p.logprobs);
}

/// Work group t: the logits of row t, in a fixed order.
__global__ void __launch_bounds__(kCombineThreads) linear_argmax_logits(const LinearArgmaxLogitsParams p) {
  begin_kernel();
  const uint64_t first = uint64_t{blockIdx.x} * p.num_logits;
  RowBest row = RowBest::nothing();
  for (uint32_t i = threadIdx.x; i < p.num_logits; i += kCombineThreads) {
    const float logit = pointer<const float>(p.logits)[first + i];
    row.best = better(row.best, candidate_of(logit, static_cast<int32_t>(i)));
    if (p.logprobs != 0) row.add(logit, 1.0F);
  }
  finish_row(row, p.token_map, p.token_ids, p.logprobs);
}

}  // namespace
}  // namespace foretoken::gpu
