// sample_drafts (core/ops/sample_tokens.h): a row per work group.
#version 460
#include "backends/vulkan/shaders/device.glsl"
#include "backends/vulkan/shaders/row_equal.glsl"

struct SampleDraftsParams {
  uint64_t logits;
  uint64_t row_slots;
  uint64_t positions;
  uint64_t reals;
  uint64_t integers;
  uint64_t seeds;
  uint64_t token_ids;
  uint64_t candidate_ids;
  uint64_t candidate_weights;
  uint64_t logits_stride;
  uint vocab_size;
  uint num_slots;
  uint num_candidates;
  uint draft_idx;
};
PARAMS(SampleDraftsParams);

// Tokens of the distribution.
shared int listed_ids[kMaxDraftCandidates];
shared uint64_t listed_weights[kMaxDraftCandidates];
shared uint listed_count;

// Lists the first `limit` tokens of the order that have a weight, in no order.
void collect_candidates(uint64_t x, uint n, uint limit) {
  uint64_t num_weighted = 0;
  for (uint v = thread_index(); v < n; v += kThreads) num_weighted += logit_of(x, v) > kLowestWeighted ? 1ul : 0ul;
  num_weighted = row_sum(num_weighted);
  float last = kLowestWeighted;
  uint last_index = 0;
  if (num_weighted > limit) {
    const OrderCut cut = cut_of_order(x, n, OrderAmount(false, limit, 0.0));
    last = cut.last;
    last_index = index_of_equal(x, n, last, cut.missing);
  }
  if (thread_index() == 0) listed_count = 0;
  barrier();
  for (uint v = thread_index(); v < n; v += kThreads) {
    const float logit = logit_of(x, v);
    const bool is_kept = logit > last || (logit == last && v <= last_index);
    const uint64_t weight = is_kept ? sampling_weight(logit) : 0ul;
    if (weight == 0) continue;
    const uint at = atomicAdd(listed_count, 1u);
    if (at >= limit) continue;
    listed_ids[at] = int(v);
    listed_weights[at] = weight;
  }
  barrier();
}

void main() {
  const uint row = gl_WorkGroupID.x;
  const uint own = thread_index();
  const uint64_t x = params.logits + uint64_t(row) * params.logits_stride * 4;
  const uint64_t first = uint64_t(row) * params.num_candidates;
  const int slot = sampled_slot(load_i32(params.row_slots, row), params.reals, params.num_slots);
  const bool is_greedy = draft_sampling(params.integers, slot) == kGreedyDrafts;
  uint count = 0;
  if (is_greedy) {
    const int best = row_argmax(x, params.vocab_size);
    if (own == 0) store_i32(params.token_ids, row, best);
  } else {
    collect_candidates(x, params.vocab_size, params.num_candidates);
    count = min(listed_count, params.num_candidates);
  }
  if (own >= params.num_candidates) return;
  if (own >= count) {
    store_i32(params.candidate_ids, first + own, -1);
    store_bits(params.candidate_weights, first + own, 0);
    if (!is_greedy && count == 0 && own == 0) store_i32(params.token_ids, row, 0);
    return;
  }
  const int id = listed_ids[own];
  const uint64_t weight = listed_weights[own];
  uint rank = 0;
  uint64_t before = 0;
  uint64_t sum = 0;
  for (uint i = 0; i < count; ++i) {
    const bool is_before = listed_ids[i] < id;
    rank += is_before ? 1u : 0u;
    before += is_before ? listed_weights[i] : 0ul;
    sum += listed_weights[i];
  }
  store_i32(params.candidate_ids, first + rank, id);
  store_bits(params.candidate_weights, first + rank, weight);
  const uint64_t bits = random_bits(load_bits(params.seeds, slot), load_i32(params.positions, row), kForDraft, params.draft_idx);
  const uint64_t number = multiply_high(bits, sum);
  if (before <= number && number < before + weight) store_i32(params.token_ids, row, id);
}
