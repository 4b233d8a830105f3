// sample_tokens, sample_drafts and accept_sampled.
#pragma once

#include "backends/gpu/token_weights.inl"

namespace foretoken::gpu {
namespace {

__global__ void __launch_bounds__(kSampleThreads) sample_tokens(const SampleTokensParams p) {
  begin_kernel();
  __shared__ RowScratch scratch;
  const uint32_t row = blockIdx.x;
  const float* x = pointer<const float>(p.logits) + row * p.logits_stride;
  const int32_t slot = sampled_slot(pointer<const int32_t>(p.row_slots)[row], p.reals, p.num_slots);
  uint64_t sum = 0;
  int32_t token = 0;
  if (slot < 0) {
    token = row_argmax(x, p.vocab_size, scratch);
  } else {
#pragma unroll 4
    for (uint32_t v = threadIdx.x; v < p.vocab_size; v += kSampleThreads) sum += sampling_weight(x[v]);
    sum = row_sum(sum, scratch);
    const auto seed = static_cast<uint64_t>(pointer<const int64_t>(p.seeds)[slot]);
    const uint64_t bits = random_bits(seed, pointer<const int32_t>(p.positions)[row], RandomPurpose::kToken, 0);
    const auto part = [x](uint32_t begin, uint32_t end, uint32_t lane) { return lane_weights(x, begin, end, lane); };
    token = sum == 0 ? 0 : static_cast<int32_t>(draw_index(p.vocab_size, multiply_high(bits, sum), scratch, part));
  }
  if (threadIdx.x != 0) return;
  pointer<int32_t>(p.token_ids)[row] = token;
  pointer<uint64_t>(p.weight_sums)[row] = sum;
}

/// Tokens of a distribution in shared memory.
struct CandidateList {
  int32_t ids[kMaxDraftCandidates];
  uint64_t weights[kMaxDraftCandidates];
  uint32_t count;
};

/// Collects the first `limit` tokens of the order that have a weight, in no order.
FORETOKEN_DEVICE void collect_candidates(const float* x, uint32_t n, uint32_t limit, CandidateList& list, RowScratch& scratch) {
  uint64_t num_weighted = 0;
  for (uint32_t v = threadIdx.x; v < n; v += kSampleThreads) num_weighted += x[v] > kLowestWeighted ? 1U : 0U;
  num_weighted = row_sum(num_weighted, scratch);
  float last = kLowestWeighted;
  uint32_t last_index = 0;
  if (num_weighted > limit) {
    const OrderCut cut = cut_of_order(
        x, n, scratch, [](float) { return uint64_t{1}; }, [limit](uint64_t) { return uint64_t{limit}; });
    last = cut.last;
    last_index = index_of_equal(x, n, last, cut.missing, scratch);
  }
  if (threadIdx.x == 0) list.count = 0;
  __syncthreads();
  for (uint32_t v = threadIdx.x; v < n; v += kSampleThreads) {
    const bool is_kept = x[v] > last || (x[v] == last && v <= last_index);
    const uint64_t weight = is_kept ? sampling_weight(x[v]) : 0;
    if (weight == 0) continue;
    const uint32_t at = atomicAdd(&list.count, 1U);
    if (at >= limit) continue;
    list.ids[at] = static_cast<int32_t>(v);
    list.weights[at] = weight;
  }
  __syncthreads();
}

__global__ void __launch_bounds__(kSampleThreads) sample_drafts(const SampleDraftsParams p) {
  begin_kernel();
  __shared__ RowScratch scratch;
  __shared__ CandidateList list;
  const uint32_t row = blockIdx.x;
  const float* x = pointer<const float>(p.logits) + row * p.logits_stride;
  auto* ids = pointer<int32_t>(p.candidate_ids) + uint64_t{row} * p.num_candidates;
  auto* weights = pointer<uint64_t>(p.candidate_weights) + uint64_t{row} * p.num_candidates;
  auto* token = pointer<int32_t>(p.token_ids) + row;
  const int32_t slot = sampled_slot(pointer<const int32_t>(p.row_slots)[row], p.reals, p.num_slots);
  const bool is_greedy = draft_sampling(p.integers, slot) == DraftSampling::kGreedy;
  uint32_t count = 0;
  if (is_greedy) {
    const int32_t best = row_argmax(x, p.vocab_size, scratch);
    if (threadIdx.x == 0) *token = best;
  } else {
    collect_candidates(x, p.vocab_size, p.num_candidates, list, scratch);
    count = smaller(list.count, p.num_candidates);
  }
  if (threadIdx.x >= p.num_candidates) return;
  if (threadIdx.x >= count) {
    ids[threadIdx.x] = -1;
    weights[threadIdx.x] = 0;
    if (!is_greedy && count == 0 && threadIdx.x == 0) *token = 0;
    return;
  }
  const int32_t id = list.ids[threadIdx.x];
  const uint64_t weight = list.weights[threadIdx.x];
  uint32_t rank = 0;
  uint64_t before = 0;
  uint64_t sum = 0;
  for (uint32_t i = 0; i < count; ++i) {
    const bool is_before = list.ids[i] < id;
    rank += is_before ? 1U : 0U;
    before += is_before ? list.weights[i] : 0;
    sum += list.weights[i];
  }
  ids[rank] = id;
  weights[rank] = weight;
  const auto seed = static_cast<uint64_t>(pointer<const int64_t>(p.seeds)[slot]);
  const uint64_t bits = random_bits(seed, pointer<const int32_t>(p.positions)[row], RandomPurpose::kDraft, p.draft_idx);
  const uint64_t number = multiply_high(bits, sum);
  if (before <= number && number < before + weight) *token = id;
}

/// What a group shares while it verifies.
struct AcceptScratch {
  RowScratch row;
  int32_t ids[kMaxDraftCandidates];
  uint64_t changes[kMaxDraftCandidates];  // of the weights of those ids
  uint32_t count;
  uint64_t own;
};

/// One sequence of a verify step. Thread i has candidate i of the draft that was looked up last.
struct SampledSequence {
  const AcceptSampledParams& p;
  AcceptScratch& scratch;
  uint32_t first;
  uint32_t num_rows;
  uint64_t seed;

  // Of the draft that was looked up last:
  const float* x;         // the target's row that checks it
  uint64_t whole;         // sum of its weights
  uint64_t draft_weight;  // of the draft
  double scale;           // what a draft's weight is worth
  uint32_t count;         // candidates
  int32_t id;             // the thread's candidate,
  uint64_t weight;        // its weight for the drafter
  uint64_t own_weight;    // and for the target

  FORETOKEN_DEVICE bool exists(int32_t token) const { return token >= 0 && static_cast<uint32_t>(token) < p.vocab_size; }
  FORETOKEN_DEVICE int32_t draft(uint32_t j) const { return pointer<const int32_t>(p.token_ids)[first + j]; }
  FORETOKEN_DEVICE double uniform(uint32_t j) const {
    const int32_t position = pointer<const int32_t>(p.positions)[first];
    return unit_interval(random_bits(seed, position, RandomPurpose::kAccept, j));
  }

  FORETOKEN_DEVICE uint32_t count_equal() const {
    const auto* picks = pointer<const int32_t>(p.picks) + first;
    uint32_t accepted = 0;
    while (accepted + 1 < num_rows && draft(accepted + 1) == picks[accepted]) ++accepted;
    return accepted;
  }

  /// The list of draft j, ended by an id that does not exist; nothing without one.
  FORETOKEN_DEVICE void load_list(uint32_t j) {
    const int32_t block_row = pointer<const int32_t>(p.block_rows)[blockIdx.x];
    const bool listed = j <= p.num_drafts && block_row >= 0 && static_cast<uint32_t>(block_row) < p.num_block_rows;
    if (threadIdx.x == 0) {
      scratch.count = listed ? p.num_candidates : 0;
      scratch.own = 0;
    }
    id = -1;
    weight = 0;
    __syncthreads();
    if (listed && threadIdx.x < p.num_candidates) {
      const uint64_t at =
          (uint64_t{j - 1} * p.num_block_rows + static_cast<uint32_t>(block_row)) * p.num_candidates + threadIdx.x;
      id = pointer<const int32_t>(p.candidate_ids)[at];
      weight = pointer<const uint64_t>(p.candidate_weights)[at];
      if (!exists(id)) atomicMin(&scratch.count, threadIdx.x);
    }
    __syncthreads();
    count = scratch.count;
    if (threadIdx.x >= count) weight = 0;
    if (threadIdx.x < count && id == draft(j)) scratch.own = weight;
    __syncthreads();
    draft_weight = scratch.own;
  }

  /// Looks up draft j: where its candidates do not list it, it is the only one.
  FORETOKEN_DEVICE void look_up(uint32_t j) {
    __syncthreads();
    x = pointer<const float>(p.logits) + (first + j - 1) * p.logits_stride;
    whole = pointer<const uint64_t>(p.weight_sums)[first + j - 1];
    load_list(j);
    const uint64_t sum = row_sum(weight, scratch.row);
    scale = static_cast<double>(whole) / static_cast<double>(sum);
    if (draft_weight == 0) {
      scale = static_cast<double>(whole);
      draft_weight = 1;
      count = exists(draft(j)) ? 1 : 0;
      id = draft(j);
      weight = 1;
    }
    own_weight = threadIdx.x < count ? sampling_weight(x[id]) : 0;
  }

  /// p_(j-1)(X_j) / q_j(X_j) of the draft that was looked up.
  FORETOKEN_DEVICE double ratio(uint32_t j) const {
    const uint64_t target = exists(draft(j)) ? sampling_weight(x[draft(j)]) : 0;
    return target == 0 ? 0.0 : static_cast<double>(target) / (static_cast<double>(draft_weight) * scale);
  }

  /// By how much the weight of the thread's candidate changes when `share` of it covers the drafter's.
  FORETOKEN_DEVICE uint64_t change(double share) const {
    return threadIdx.x < count ? residual_weight(own_weight, weight, scale, share) - own_weight : 0;
  }

  FORETOKEN_DEVICE uint32_t reject() {
    uint32_t accepted = 0;
    while (accepted + 1 < num_rows) {
      look_up(accepted + 1);
      if (!(uniform(accepted + 1) < ratio(accepted + 1))) break;
      ++accepted;
    }
    return accepted;
  }

  /// `share` becomes c of the accepted drafts.
  FORETOKEN_DEVICE uint32_t verify_block(double& share) {
    uint32_t accepted = 0;
    double running = 1.0;
    if (num_rows > 1) look_up(1);
    for (uint32_t j = 1; j < num_rows; ++j) {
      const double next = running * ratio(j);
      running = next < 1.0 ? next : 1.0;
      double holds = running;
      if (j + 1 < num_rows) {
        look_up(j + 1);
        if (running > 0.0) {
          const uint64_t sum = whole + row_sum(change(running), scratch.row);
          const double left = running * static_cast<double>(sum) / static_cast<double>(whole);
          holds = left > 0.0 ? left / (left + 1.0 - running) : 0.0;
        }
      }
      if (uniform(j) < holds) {
        accepted = j;
        share = running;
      }
    }
    return accepted;
  }

  /// The token after the accepted drafts; -1 where it stays the row's pick.
  FORETOKEN_DEVICE int32_t draw_after(uint32_t accepted, double share) {
    look_up(accepted + 1);
    const uint64_t own_change = change(share);
    const uint64_t sum = whole + row_sum(own_change, scratch.row);
    if (sum == 0) return -1;
    if (threadIdx.x < count) {
      scratch.ids[threadIdx.x] = id;
      scratch.changes[threadIdx.x] = own_change;
    }
    __syncthreads();
    const int32_t position = pointer<const int32_t>(p.positions)[first + accepted];
    const uint64_t number = multiply_high(random_bits(seed, position, RandomPurpose::kToken, 0), sum);
    const auto part = [this](uint32_t begin, uint32_t end, uint32_t lane) {
      uint64_t part_sum = lane_weights(x, begin, end, lane);
      for (uint32_t i = lane; i < count; i += kLanes) {
        const auto at = static_cast<uint32_t>(scratch.ids[i]);
        if (at >= begin && at < end) part_sum += scratch.changes[i];
      }
      return part_sum;
    };
    return static_cast<int32_t>(draw_index(p.vocab_size, number, scratch.row, part));
  }
};

__global__ void __launch_bounds__(kSampleThreads) accept_sampled(const AcceptSampledParams p) {
  begin_kernel();
  __shared__ AcceptScratch scratch;
  const auto* starts = pointer<const int32_t>(p.query_start_loc);
  const auto first = static_cast<uint32_t>(starts[blockIdx.x]);
  const uint32_t num_rows = static_cast<uint32_t>(starts[blockIdx.x + 1]) - first;
  auto* num_accepted = pointer<int32_t>(p.num_accepted) + blockIdx.x;
  if (num_rows == 0) {
    if (threadIdx.x == 0) *num_accepted = 0;
    return;
  }
  const int32_t slot = sampled_slot(pointer<const int32_t>(p.row_slots)[first], p.reals, p.num_slots);
  const DraftSampling kind = draft_sampling(p.integers, slot);
  SampledSequence sequence{.p = p, .scratch = scratch, .first = first, .num_rows = num_rows};
  if (kind == DraftSampling::kGreedy) {
    if (threadIdx.x == 0) *num_accepted = static_cast<int32_t>(sequence.count_equal());
    return;
  }
  sequence.seed = static_cast<uint64_t>(pointer<const int64_t>(p.seeds)[slot]);
  double share = 1.0;
  const uint32_t accepted = kind == DraftSampling::kRejection ? sequence.reject() : sequence.verify_block(share);
  const int32_t token = accepted + 1 < num_rows ? sequence.draw_after(accepted, share) : -1;
  auto* picks = pointer<int32_t>(p.picks) + first;
  if (threadIdx.x < accepted) picks[threadIdx.x] = sequence.draft(threadIdx.x + 1);
  if (threadIdx.x != 0) return;
  if (token >= 0) picks[accepted] = token;
  *num_accepted = static_cast<int32_t>(accepted);
}

}  // namespace
}  // namespace foretoken::gpu
