// Merging what the splits of a query gave (gated_attention): one after another, in their order, so that the bits of a row do not
// depend on who merges.
#pragma once

#include "backends/gpu/attention_rows.inl"

namespace foretoken::gpu {
namespace {

/// What the splits of a query have given so far: one element of the mixed values, the maximum and the sum.
struct Merged {
  float mixed;
  float maximum;
  float sum;

  FORETOKEN_DEVICE static Merged nothing() { return {0.0F, -INFINITY, 0.0F}; }
  FORETOKEN_DEVICE void add(float other_mixed, float other_maximum, float other_sum) {
    const float larger = fmaxf(maximum, other_maximum);
    add(other_mixed, other_sum, rescale_factor(maximum, larger), rescale_factor(other_maximum, larger));
    maximum = larger;
  }
  /// With the factors of both sides.
  FORETOKEN_DEVICE void add(float other_mixed, float other_sum, float mine, float theirs) {
    mixed = fmaf(mixed, mine, other_mixed * theirs);
    sum = fmaf(sum, mine, other_sum * theirs);
  }
};

/// Element threadIdx.x of a query's output.
FORETOKEN_DEVICE void store_gated(const GatedAttentionParams& p, uint32_t row, uint32_t head, const Merged& merged) {
  const uint64_t element = uint64_t{head} * p.head_dim + threadIdx.x;
  const uint64_t gate = row * p.q_gate_stride + uint64_t{head} * 2 * p.head_dim + p.head_dim + threadIdx.x;
  float value = merged.mixed / merged.sum;
  if (p.cache_format == CacheFormat::kE4M3) value *= *pointer<const float>(p.v_scale);
  store_float(p.out, row * p.out_stride + element, value * sigmoid(load_float(p.q_gate, gate, p.q_gate_is_bf16 != 0)),
              p.out_is_bf16 != 0);
}

/// Positions that a row attends to; 0 for padding.
FORETOKEN_DEVICE uint32_t length_of_row(const GatedAttentionParams& p, uint32_t row) {
  const auto* starts = pointer<const int32_t>(p.query_start_loc);
  for (uint32_t b = 0; b < p.num_sequences; ++b) {
    if (static_cast<int32_t>(row) < starts[b] || static_cast<int32_t>(row) >= starts[b + 1]) continue;
    const int32_t length = pointer<const int32_t>(p.seq_lens)[b] - starts[b + 1] + static_cast<int32_t>(row) + 1;
    return length <= 0 ? 0 : smaller(static_cast<uint32_t>(length), p.max_seq_len);
  }
  return 0;
}

/// How a split is added to those before it.
struct MergeStep {
  float mine;
  float theirs;
  float sum;
};

/// The steps of `count` splits, which begin at number `first` of the partial results: what Merged::add would take, all at once.
FORETOKEN_DEVICE void find_merge_steps(const GatedAttentionParams& p, uint64_t first, uint32_t count,
                                       MergeStep (&steps)[kMaxSplits]) {
  if (threadIdx.x >= kLanes) return;
  float before = -INFINITY;  // the maximum over the splits in front of this lane's
  for (uint32_t base = 0; base < count; base += kLanes) {
    const uint32_t split = base + threadIdx.x;
    float2 part{-INFINITY, 0.0F};
    if (split < count) part = pointer<const float2>(p.partial_max)[first + split];
    float maximum = fmaxf(before, part.x);
#pragma unroll
    for (uint32_t distance = 1; distance < kLanes; distance *= 2) maximum = fmaxf(maximum, lane_up(maximum, distance));
    const float previous = lane_up(maximum, 1);
    const float mine = threadIdx.x == 0 ? before : previous;
    if (split < count) steps[split] = {rescale_factor(mine, maximum), rescale_factor(part.x, maximum), part.y};
    before = lane_max(maximum);
  }
}

/// grid: (query head, row). Reads kTogether splits at a time.
__global__ void __launch_bounds__(kAttentionThreads) gated_attention_combine(const GatedAttentionParams p) {
  constexpr uint32_t kTogether = 16;
  __shared__ MergeStep steps[kMaxSplits];
  allow_next();
  const uint32_t head = blockIdx.x;
  const uint32_t row = p.first_row + blockIdx.y;
  const uint32_t length = length_of_row(p, row);
  const uint32_t count = length == 0 ? 0 : (length - 1) / split_size(length) + 1;
  wait_for_previous();
  const uint64_t first = (uint64_t{blockIdx.y} * p.num_query_heads + head) * p.num_splits;
  find_merge_steps(p, first, count, steps);
  const bool exists = threadIdx.x < p.head_dim;
  Merged merged = Merged::nothing();
  for (uint32_t base = 0; base < count; base += kTogether) {
    float mixed[kTogether];
#pragma unroll
    for (uint32_t u = 0; u < kTogether; ++u) {
      const bool reads = exists && base + u < count;
      mixed[u] = reads ? pointer<const float>(p.partial)[(first + base + u) * p.head_dim + threadIdx.x] : 0.0F;
    }
    if (base == 0) __syncthreads();
#pragma unroll
    for (uint32_t u = 0; u < kTogether; ++u) {
      if (base + u >= count) continue;
      const MergeStep& step = steps[base + u];
      merged.add(mixed[u], step.sum, step.mine, step.theirs);
    }
  }
  if (count > 0 && exists) store_gated(p, row, head, merged);
}

}  // namespace
}  // namespace foretoken::gpu
