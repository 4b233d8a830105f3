// A row of logits as a work group of kSampleThreads walks over it: sums and the best of it, cuts of its order, and draws. Sums
// are of integers, so that no order of adding shows. Every thread of the group calls these functions, and all get the result.
#pragma once

#include "backends/gpu/numeric.inl"
#include "backends/gpu/sample_params.h"
#include "core/ops/sampling_rules.h"

namespace foretoken::gpu {
namespace {

constexpr uint32_t kSampleWarps = kSampleThreads / kLanes;
constexpr uint32_t kKeyBits = 31;
constexpr uint32_t kDigitBits = 3;
constexpr uint32_t kDigits = 1U << kDigitBits;

/// Memory that a group needs for its reductions.
struct RowScratch {
  uint64_t sums[kDigits][kSampleWarps];
  Candidate best[kSampleWarps];
};

FORETOKEN_DEVICE uint64_t lane_sum(uint64_t value) {
  for (int mask = kLanes / 2; mask > 0; mask /= 2) value += lane_xor(value, mask);
  return value;
}

FORETOKEN_DEVICE uint64_t row_sum(uint64_t value, RowScratch& scratch) {
  value = lane_sum(value);
  __syncthreads();
  if (threadIdx.x % kLanes == 0) scratch.sums[0][threadIdx.x / kLanes] = value;
  __syncthreads();
  return lane_sum(scratch.sums[0][threadIdx.x % kLanes]);
}

/// The first of the largest; index -1 without one.
FORETOKEN_DEVICE Candidate row_best(Candidate candidate, RowScratch& scratch) {
  candidate = lane_best(candidate);
  __syncthreads();
  if (threadIdx.x % kLanes == 0) scratch.best[threadIdx.x / kLanes] = candidate;
  __syncthreads();
  return lane_best(scratch.best[threadIdx.x % kLanes]);
}

/// Argmax of a row: NaN never wins, and a row of NaN gives 0.
FORETOKEN_DEVICE int32_t row_argmax(const float* x, uint32_t n, RowScratch& scratch) {
  Candidate best{0.0F, -1};
#pragma unroll 4
  for (uint32_t v = threadIdx.x; v < n; v += kSampleThreads) best = better(best, candidate_of(x[v], static_cast<int32_t>(v)));
  best = row_best(best, scratch);
  return best.index < 0 ? 0 : best.index;
}

/// The place of a logit of at most 0 in the order of falling logits, and back: -0.0 for 0, which equals it.
FORETOKEN_DEVICE uint32_t order_key(float x) { return float_bits(x) & 0x7fffffffU; }
FORETOKEN_DEVICE float logit_of_key(uint32_t key) { return bits_to_float(key | 0x80000000U); }

/// Where the first tokens of the order come to a given amount.
struct OrderCut {
  float last;        // with the tokens of this logit they reach it,
  uint64_t missing;  // to which those before lack so much (at least 1)
};

/// The cut at which the amounts amount(x) of the tokens reach need(their sum), at least 1 and at most that sum: digit by digit of
/// the key, from the top, a pass over the row for each.
template <class Amount, class Need>
FORETOKEN_DEVICE OrderCut cut_of_order(const float* x, uint32_t n, RowScratch& scratch, Amount amount, Need need) {
  uint32_t key = 0;
  uint64_t missing = 0;
  uint32_t open = kKeyBits;
  while (open > 0) {
    const uint32_t shift = open > kDigitBits ? open - kDigitBits : 0;
    uint64_t sums[kDigits] = {};
#pragma unroll 4
    for (uint32_t v = threadIdx.x; v < n; v += kSampleThreads) {
      const uint32_t offset = order_key(x[v]) - key;
      if (offset >> open != 0) continue;
      const uint64_t own = amount(x[v]);
#pragma unroll
      for (uint32_t digit = 0; digit < kDigits; ++digit) sums[digit] += offset >> shift == digit ? own : 0;
    }
    __syncthreads();
#pragma unroll
    for (uint32_t digit = 0; digit < kDigits; ++digit) {
      const uint64_t sum = lane_sum(sums[digit]);
      if (threadIdx.x % kLanes == 0) scratch.sums[digit][threadIdx.x / kLanes] = sum;
    }
    __syncthreads();
    uint64_t whole = 0;
#pragma unroll
    for (uint32_t digit = 0; digit < kDigits; ++digit) {
      sums[digit] = lane_sum(scratch.sums[digit][threadIdx.x % kLanes]);
      whole += sums[digit];
    }
    if (open == kKeyBits) missing = need(whole);
    bool found = false;
#pragma unroll
    for (uint32_t digit = 0; digit < kDigits; ++digit) {
      if (found) continue;
      found = sums[digit] >= missing;
      if (found) {
        key += digit << shift;
      } else {
        missing -= sums[digit];
      }
    }
    open = shift;
  }
  return {logit_of_key(key), missing};
}

/// The first index of [0, n) with which the sum of the amounts passes `number`, below their sum; part(begin, end, lane) is what a
/// lane adds up of a range, all lanes of a warp together the whole.
template <class Part>
FORETOKEN_DEVICE uint32_t draw_index(uint32_t n, uint64_t number, RowScratch& scratch, Part part) {
  uint32_t begin = 0;
  uint32_t end = n;
  while (end - begin > 1) {
    const uint32_t length = (end - begin + kSampleWarps - 1) / kSampleWarps;
    const uint32_t own_begin = smaller(begin + threadIdx.x / kLanes * length, end);
    const uint64_t sum = lane_sum(part(own_begin, smaller(own_begin + length, end), threadIdx.x % kLanes));
    __syncthreads();
    if (threadIdx.x % kLanes == 0) scratch.sums[0][threadIdx.x / kLanes] = sum;
    __syncthreads();
    uint32_t warp = 0;
    while (warp + 1 < kSampleWarps && scratch.sums[0][warp] <= number) number -= scratch.sums[0][warp++];
    begin = smaller(begin + warp * length, end - 1);
    end = smaller(begin + length, end);
  }
  return begin;
}

/// What a lane adds up of the weights of a range.
FORETOKEN_DEVICE uint64_t lane_weights(const float* x, uint32_t begin, uint32_t end, uint32_t lane) {
  uint64_t sum = 0;
#pragma unroll 4
  for (uint32_t v = begin + lane; v < end; v += kLanes) sum += sampling_weight(x[v]);
  return sum;
}

/// The index of the `count`-th (from 1) token whose logit equals `last`.
FORETOKEN_DEVICE uint32_t index_of_equal(const float* x, uint32_t n, float last, uint64_t count, RowScratch& scratch) {
  return draw_index(n, count - 1, scratch, [&](uint32_t begin, uint32_t end, uint32_t lane) {
    uint64_t sum = 0;
    for (uint32_t v = begin + lane; v < end; v += kLanes) sum += x[v] == last ? 1U : 0U;
    return sum;
  });
}

/// Slot of a row that is sampled; -1: none, or at temperature 0.
FORETOKEN_DEVICE int32_t sampled_slot(int32_t slot, uint64_t reals, uint32_t num_slots) {
  if (slot < 0 || static_cast<uint32_t>(slot) >= num_slots) return -1;
  return pointer<const float>(reals)[static_cast<uint32_t>(slot) * kNumSamplingReals + kTemperature] > 0.0F ? slot : -1;
}

FORETOKEN_DEVICE DraftSampling draft_sampling(uint64_t integers, int32_t slot) {
  if (slot < 0) return DraftSampling::kGreedy;
  const auto* row = pointer<const int32_t>(integers) + static_cast<uint32_t>(slot) * kNumSamplingIntegers;
  return static_cast<DraftSampling>(row[kDraftSampling]);
}

}  // namespace
}  // namespace foretoken::gpu
