// accept_sampled (core/ops/accept_sampled.h): a work group verifies a sequence.
#version 460
#include "backends/vulkan/shaders/device.glsl"
#include "backends/vulkan/shaders/row.glsl"
#include "backends/vulkan/shaders/doubles.glsl"

struct AcceptSampledParams {
  uint64_t logits;
  uint64_t weight_sums;
  uint64_t token_ids;
  uint64_t row_slots;
  uint64_t positions;
  uint64_t query_start_loc;
  uint64_t block_rows;
  uint64_t candidate_ids;
  uint64_t candidate_weights;
  uint64_t reals;
  uint64_t integers;
  uint64_t seeds;
  uint64_t picks;
  uint64_t num_accepted;
  uint64_t logits_stride;
  uint vocab_size;
  uint num_slots;
  uint num_drafts;
  uint num_block_rows;
  uint num_candidates;
  uint reserved;
};
PARAMS(AcceptSampledParams);

const Double kOne = Double(1ul << 52, -52);

// Candidates of the draft that was looked up last.
shared int listed_ids[kMaxDraftCandidates];
shared uint64_t listed_changes[kMaxDraftCandidates];  // of the target's weights of those ids
shared uint listed_count;
shared uint64_t listed_own;

// The sequence of the group.
uint first;
uint num_rows;
uint64_t seed;

// Of the draft that was looked up last; invocation i has candidate i.
uint64_t x;            // the target's row that checks it
uint64_t whole;        // sum of its weights
uint64_t draft_weight;  // of the draft
Double scale;          // what a draft's weight is worth
uint count;            // candidates
int id;                // the invocation's candidate,
uint64_t weight;       // its weight for the drafter
uint64_t own_weight;   // and for the target

uint64_t lane_amounts(uint64_t row, uint begin, uint end, uint lane) {
  uint64_t sum = lane_weights(row, begin, end, lane);
  for (uint i = lane; i < count; i += kPartLanes) {
    const uint at = uint(listed_ids[i]);
    if (at >= begin && at < end) sum += listed_changes[i];
  }
  return sum;
}

bool exists(int token) { return token >= 0 && uint(token) < params.vocab_size; }
int draft(uint j) { return load_i32(params.token_ids, first + j); }

// The random number of draft j, of [0, 1).
Double uniform_of(uint j) {
  const uint64_t bits = random_bits(seed, load_i32(params.positions, first), kForAccept, j);
  return rounded(bits >> 11, -53, false);
}

uint count_equal() {
  uint accepted = 0;
  while (accepted + 1 < num_rows && draft(accepted + 1) == load_i32(params.picks, first + accepted)) ++accepted;
  return accepted;
}

// The list of draft j, ended by an id that does not exist; nothing without one.
void load_list(uint j) {
  const int block_row = load_i32(params.block_rows, gl_WorkGroupID.x);
  const bool listed = j <= params.num_drafts && block_row >= 0 && uint(block_row) < params.num_block_rows;
  const uint own = thread_index();
  if (own == 0) {
    listed_count = listed ? params.num_candidates : 0;
    listed_own = 0;
  }
  id = -1;
  weight = 0;
  barrier();
  if (listed && own < params.num_candidates) {
    const uint64_t at = (uint64_t(j - 1) * params.num_block_rows + uint(block_row)) * params.num_candidates + own;
    id = load_i32(params.candidate_ids, at);
    weight = load_bits(params.candidate_weights, at);
    if (!exists(id)) atomicMin(listed_count, own);
  }
  barrier();
  count = listed_count;
  if (own >= count) weight = 0;
  if (own < count && id == draft(j)) listed_own = weight;
  barrier();
  draft_weight = listed_own;
}

// Looks up draft j: where its candidates do not list it, it is the only one.
void look_up(uint j) {
  barrier();
  x = params.logits + uint64_t(first + j - 1) * params.logits_stride * 4;
  whole = load_bits(params.weight_sums, first + j - 1);
  load_list(j);
  const uint64_t sum = row_sum(weight);
  if (draft_weight != 0) {
    scale = quotient(to_double(whole), to_double(sum));
  } else {
    scale = to_double(whole);
    draft_weight = 1;
    count = exists(draft(j)) ? 1 : 0;
    id = draft(j);
    weight = 1;
  }
  own_weight = thread_index() < count ? sampling_weight(logit_of(x, id)) : 0ul;
}

// p_(j-1)(X_j) / q_j(X_j) of the draft that was looked up.
Double ratio(uint j) {
  const uint64_t target = exists(draft(j)) ? sampling_weight(logit_of(x, draft(j))) : 0ul;
  if (target == 0) return Double(0, 0);
  return quotient(to_double(target), product(to_double(draft_weight), scale));
}

// By how much the weight of the invocation's candidate changes when `share` of it covers the drafter's (residual_weight).
uint64_t change(Double share) {
  if (thread_index() >= count) return 0;
  const Double covered = quotient(product(to_double(weight), scale), share);
  return to_integer(difference(to_double(own_weight), covered)) - own_weight;
}

uint reject_drafts() {
  uint accepted = 0;
  while (accepted + 1 < num_rows) {
    look_up(accepted + 1);
    if (!is_less(uniform_of(accepted + 1), ratio(accepted + 1))) break;
    ++accepted;
  }
  return accepted;
}

// `share` becomes c of the accepted drafts.
uint verify_block(inout Double share) {
  uint accepted = 0;
  Double running = kOne;
  if (num_rows > 1) look_up(1);
  for (uint j = 1; j < num_rows; ++j) {
    const Double next = product(running, ratio(j));
    running = is_less(next, kOne) ? next : kOne;
    Double holds = running;
    if (j + 1 < num_rows) {
      look_up(j + 1);
      if (running.mantissa != 0) {
        const uint64_t sum = whole + row_sum(change(running));
        holds = Double(0, 0);
        if (sum != 0) {
          const Double left = quotient(product(running, to_double(sum)), to_double(whole));
          holds = quotient(left, difference(sum_of(left, kOne), running));
        }
      }
    }
    if (is_less(uniform_of(j), holds)) {
      accepted = j;
      share = running;
    }
  }
  return accepted;
}

// The token after the accepted drafts; -1 where it stays the row's pick.
int draw_after(uint accepted, Double share) {
  look_up(accepted + 1);
  const uint64_t own_change = change(share);
  const uint64_t sum = whole + row_sum(own_change);
  if (sum == 0) return -1;
  if (thread_index() < count) {
    listed_ids[thread_index()] = id;
    listed_changes[thread_index()] = own_change;
  }
  barrier();
  const int position = load_i32(params.positions, first + accepted);
  return int(draw_index(x, params.vocab_size, multiply_high(random_bits(seed, position, kForToken, 0), sum)));
}

void main() {
  const uint sequence = gl_WorkGroupID.x;
  first = uint(load_i32(params.query_start_loc, sequence));
  num_rows = uint(load_i32(params.query_start_loc, sequence + 1)) - first;
  if (num_rows == 0) {
    if (thread_index() == 0) store_i32(params.num_accepted, sequence, 0);
    return;
  }
  const int slot = sampled_slot(load_i32(params.row_slots, first), params.reals, params.num_slots);
  const int kind = draft_sampling(params.integers, slot);
  if (kind == kGreedyDrafts) {
    if (thread_index() == 0) store_i32(params.num_accepted, sequence, int(count_equal()));
    return;
  }
  seed = load_bits(params.seeds, slot);
  Double share = kOne;
  const uint accepted = kind == kRejectionDrafts ? reject_drafts() : verify_block(share);
  const int token = accepted + 1 < num_rows ? draw_after(accepted, share) : -1;
  if (thread_index() < accepted) {
    store_i32(params.picks, first + thread_index(), draft(thread_index() + 1));
  }
  if (thread_index() != 0) return;
  if (token >= 0) store_i32(params.picks, first + accepted, token);
  store_i32(params.num_accepted, sequence, int(accepted));
}
