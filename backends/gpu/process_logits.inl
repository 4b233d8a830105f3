// process_logits and count_tokens.
#pragma once

#include "backends/gpu/token_weights.inl"

namespace foretoken::gpu {
namespace {

/// One row and the parameters of its slot.
struct LogitsRow {
  const ProcessLogitsParams& p;
  RowScratch& scratch;
  uint32_t slot;
  float* x;
  const float* reals;
  const int32_t* integers;

  FORETOKEN_DEVICE bool exists(int32_t id) const { return id >= 0 && static_cast<uint32_t>(id) < p.vocab_size; }

  FORETOKEN_DEVICE void add_biases() const {
    const auto* ids = pointer<const int32_t>(p.bias_ids) + uint64_t{slot} * p.num_biases;
    const auto* values = pointer<const float>(p.bias_values) + uint64_t{slot} * p.num_biases;
    for (uint32_t i = threadIdx.x; i < p.num_biases; i += kSampleThreads) {
      if (exists(ids[i])) x[ids[i]] += values[i];
    }
    __syncthreads();
  }

  FORETOKEN_DEVICE void forbid_stops() const {
    if (pointer<const int32_t>(p.positions)[blockIdx.x] >= integers[kFirstStopRow]) return;
    const auto* ids = pointer<const int32_t>(p.stop_ids) + uint64_t{slot} * p.num_stops;
    for (uint32_t i = threadIdx.x; i < p.num_stops; i += kSampleThreads) {
      if (exists(ids[i])) x[ids[i]] = -INFINITY;
    }
    __syncthreads();
  }

  /// Words of the row's mask; null without one.
  FORETOKEN_DEVICE const uint32_t* mask() const {
    const int32_t row = p.mask_rows == 0 ? -1 : pointer<const int32_t>(p.mask_rows)[blockIdx.x];
    if (row < 0 || static_cast<uint32_t>(row) >= p.num_masks) return nullptr;
    return pointer<const uint32_t>(p.masks) + static_cast<uint64_t>(row) * ((p.vocab_size + 31) / 32);
  }

  FORETOKEN_DEVICE static float masked(float logit, const uint32_t* words, uint32_t v) {
    return words == nullptr || (words[v / 32] >> (v % 32) & 1U) != 0 ? logit : -INFINITY;
  }

  /// A logit whose token is seen, `count` (kInPrompt left out) times in the output.
  FORETOKEN_DEVICE float penalised(float logit, int32_t count) const {
    const float repeated = logit > 0.0F ? logit / reals[kRepetitionPenalty] : logit * reals[kRepetitionPenalty];
    if (count == 0) return repeated;
    const float frequent = repeated - reals[kFrequencyPenalty] * static_cast<float>(count);
    return frequent - reals[kPresencePenalty];
  }

  /// Masks, and penalties of the tokens that are counted; those of the block, a thread each, with their whole count.
  FORETOKEN_DEVICE void mask_and_penalise() const {
    const uint32_t* words = mask();
    const bool penalises =
        reals[kRepetitionPenalty] != 1.0F || reals[kFrequencyPenalty] != 0.0F || reals[kPresencePenalty] != 0.0F;
    if (words == nullptr && !penalises) return;
    const auto* counts = pointer<const int32_t>(p.counts) + uint64_t{slot} * p.vocab_size;
    int32_t recent = -1;
    int32_t times = 0;
    if (penalises) find_recent(recent, times);
    float recent_logit = 0.0F;
    if (recent >= 0) {
      recent_logit =
          penalised(masked(x[recent], words, static_cast<uint32_t>(recent)), (counts[recent] & (kInPrompt - 1)) + times);
    }
    __syncthreads();
#pragma unroll 4
    for (uint32_t v = threadIdx.x; v < p.vocab_size; v += kSampleThreads) {
      const int32_t count = penalises ? counts[v] : 0;
      const float logit = masked(x[v], words, v);
      x[v] = count == 0 ? logit : penalised(logit, count & (kInPrompt - 1));
    }
    __syncthreads();
    if (recent >= 0) x[recent] = recent_logit;
    __syncthreads();
  }

  /// Token i of the row's history, and how often it is there, for thread i; -1 where an earlier thread has the token.
  FORETOKEN_DEVICE void find_recent(int32_t& recent, int32_t& times) const {
    const auto* range = pointer<const int32_t>(p.history) + 2 * uint64_t{blockIdx.x};
    const auto* ids = pointer<const int32_t>(p.history_ids) + range[0];
    const auto count = static_cast<uint32_t>(range[1]);
    if (threadIdx.x >= count) return;
    const int32_t own = ids[threadIdx.x * p.history_stride];
    recent = exists(own) ? own : -1;
    for (uint32_t i = 0; i < count; ++i) {
      if (ids[i * p.history_stride] != own) continue;
      ++times;
      if (i < threadIdx.x) recent = -1;
    }
  }

  /// NaN to -infinity. Returns the largest logit.
  FORETOKEN_DEVICE float clean() const {
    Candidate best{0.0F, -1};
#pragma unroll 4
    for (uint32_t v = threadIdx.x; v < p.vocab_size; v += kSampleThreads) {
      const float logit = x[v];
      if (logit != logit) x[v] = -INFINITY;
      best = better(best, candidate_of(logit, static_cast<int32_t>(v)));
    }
    best = row_best(best, scratch);
    return best.index < 0 ? -INFINITY : best.value;
  }

  FORETOKEN_DEVICE void scale(float best) const {
    const float temperature = reals[kTemperature];
#pragma unroll 4
    for (uint32_t v = threadIdx.x; v < p.vocab_size; v += kSampleThreads) {
      x[v] = x[v] == best ? 0.0F : (x[v] - best) / temperature;
    }
    __syncthreads();
  }

  /// What comes after `last` in the order, and after the first `num_last` that equal it, becomes -infinity.
  FORETOKEN_DEVICE void keep(float last, uint64_t num_last) const {
    const uint32_t last_index = index_of_equal(x, p.vocab_size, last, num_last, scratch);
    __syncthreads();
    for (uint32_t v = threadIdx.x; v < p.vocab_size; v += kSampleThreads) {
      if (x[v] < last || (x[v] == last && v > last_index)) x[v] = -INFINITY;
    }
    __syncthreads();
  }

  FORETOKEN_DEVICE void keep_top_k() const {
    const auto k = static_cast<uint64_t>(integers[kTopK]);
    const OrderCut cut = cut_of_order(
        x, p.vocab_size, scratch, [](float) { return uint64_t{1}; }, [k](uint64_t) { return k; });
    keep(cut.last, cut.missing);
  }

  FORETOKEN_DEVICE void keep_top_p() const {
    const float share = reals[kTopP];
    const auto needed = [share](uint64_t whole) {
      const uint64_t part = share_of(whole, share);
      return part > 0 ? part : uint64_t{1};
    };
    const OrderCut cut = cut_of_order(
        x, p.vocab_size, scratch, [](float logit) { return sampling_weight(logit); }, needed);
    const uint64_t weight = sampling_weight(cut.last);
    keep(cut.last, (cut.missing + weight - 1) / weight);
  }

  FORETOKEN_DEVICE void keep_min_p() const {
    const uint64_t least = share_of(kLargestWeight, reals[kMinP]);
    for (uint32_t v = threadIdx.x; v < p.vocab_size; v += kSampleThreads) {
      if (sampling_weight(x[v]) < least) x[v] = -INFINITY;
    }
  }
};

__global__ void __launch_bounds__(kSampleThreads) process_logits(const ProcessLogitsParams p) {
  begin_kernel();
  __shared__ RowScratch scratch;
  const int32_t slot = pointer<const int32_t>(p.row_slots)[blockIdx.x];
  if (slot < 0 || static_cast<uint32_t>(slot) >= p.num_slots) return;
  const auto own = static_cast<uint32_t>(slot);
  const LogitsRow row{p,
                      scratch,
                      own,
                      pointer<float>(p.logits) + blockIdx.x * p.logits_stride,
                      pointer<const float>(p.reals) + own * kNumSamplingReals,
                      pointer<const int32_t>(p.integers) + own * kNumSamplingIntegers};
  row.add_biases();
  row.forbid_stops();
  row.mask_and_penalise();
  const float best = row.clean();
  __syncthreads();
  if (row.reals[kTemperature] <= 0.0F || best == -INFINITY) return;
  row.scale(best);
  const int32_t top_k = row.integers[kTopK];
  if (top_k > 0 && static_cast<uint32_t>(top_k) < p.vocab_size) row.keep_top_k();
  if (row.reals[kTopP] < 1.0F) row.keep_top_p();
  if (row.reals[kMinP] > 0.0F) row.keep_min_p();
}

__global__ void __launch_bounds__(kCountThreads) count_tokens(const CountTokensParams p) {
  begin_kernel();
  const uint32_t i = blockIdx.x * kCountThreads + threadIdx.x;
  if (i >= p.num_tokens) return;
  const int32_t slot = pointer<const int32_t>(p.slots)[i];
  const int32_t id = pointer<const int32_t>(p.token_ids)[i];
  if (slot < 0 || static_cast<uint32_t>(slot) >= p.num_slots || id < 0 || static_cast<uint32_t>(id) >= p.vocab_size) return;
  atomicAdd(pointer<int32_t>(p.counts) + static_cast<uint64_t>(slot) * p.vocab_size + static_cast<uint32_t>(id), 1);
}

}  // namespace
}  // namespace foretoken::gpu
