// process_logits (core/ops/process_logits.h): a work group works on a row in place.
#version 460
#include "backends/vulkan/shaders/device.glsl"
#define FORETOKEN_ROW_IS_UPDATED
#include "backends/vulkan/shaders/exact_arithmetic.glsl"
#include "backends/vulkan/shaders/row_equal.glsl"

struct ProcessLogitsParams {
  uint64_t logits;
  uint64_t row_slots;
  uint64_t positions;
  uint64_t reals;
  uint64_t integers;
  uint64_t bias_ids;
  uint64_t bias_values;
  uint64_t stop_ids;
  uint64_t counts;
  uint64_t history_ids;
  uint64_t history;
  uint64_t mask_rows;
  uint64_t masks;
  uint64_t logits_stride;
  uint vocab_size;
  uint num_slots;
  uint num_biases;
  uint num_stops;
  uint history_stride;
  uint num_masks;
};
PARAMS(ProcessLogitsParams);

// The row of the group, and the slot whose parameters it has.
uint row;
uint slot;
uint64_t x;

float real(uint column) { return load_f32(params.reals, slot * kNumSamplingReals + column); }
int integer(uint column) { return load_i32(params.integers, slot * kNumSamplingIntegers + column); }
bool exists(int id) { return id >= 0 && uint(id) < params.vocab_size; }
void set_logit(uint v, float value) { LogitRef(x + uint64_t(v) * 4).value = value; }

// The invocations of the group see what each has written.
void meet() {
  memoryBarrierBuffer();
  barrier();
}

void add_biases() {
  const uint64_t first = uint64_t(slot) * params.num_biases;
  for (uint i = thread_index(); i < params.num_biases; i += kThreads) {
    const int id = load_i32(params.bias_ids, first + i);
    if (exists(id)) set_logit(id, logit_of(x, id) + load_f32(params.bias_values, first + i));
  }
  meet();
}

void forbid_stops() {
  if (load_i32(params.positions, row) >= integer(kFirstStopRow)) return;
  const uint64_t first = uint64_t(slot) * params.num_stops;
  for (uint i = thread_index(); i < params.num_stops; i += kThreads) {
    const int id = load_i32(params.stop_ids, first + i);
    if (exists(id)) set_logit(id, -kInfinity);
  }
  meet();
}

// Address of the words of the row's mask; 0 without one.
uint64_t mask_of_row() {
  const int mask_row = params.mask_rows == 0 ? -1 : load_i32(params.mask_rows, row);
  if (mask_row < 0 || uint(mask_row) >= params.num_masks) return 0;
  return params.masks + uint64_t(mask_row) * ((params.vocab_size + 31) / 32) * 4;
}

float masked(float logit, uint64_t words, uint v) {
  const bool allowed = words == 0 || (load_i32(words, v / 32) >> (v % 32) & 1) != 0;
  return allowed ? logit : -kInfinity;
}

// What penalties a slot has.
struct Penalties {
  float repetition;
  float presence;
  float frequency;
};

// A logit whose token is seen, `count` (kInPrompt left out) times in the output.
float penalised(float logit, int count, Penalties penalties) {
  precise float result = logit > 0.0 ? exact_quotient(logit, penalties.repetition) : logit * penalties.repetition;
  if (count == 0) return result;
  precise const float frequent = penalties.frequency * float(count);
  result = result - frequent;
  result = result - penalties.presence;
  return result;
}

// A token of the row's history: -1 where an earlier invocation has it.
struct RecentToken {
  int id;
  int times;
};

RecentToken find_recent() {
  const int begin = load_i32(params.history, 2 * uint64_t(row));
  const uint count = uint(load_i32(params.history, 2 * uint64_t(row) + 1));
  RecentToken recent = RecentToken(-1, 0);
  if (thread_index() >= count) return recent;
  const uint64_t ids = params.history_ids + uint64_t(int64_t(begin)) * 4;
  const int own = load_i32(ids, thread_index() * params.history_stride);
  if (exists(own)) recent.id = own;
  for (uint i = 0; i < count; ++i) {
    if (load_i32(ids, i * params.history_stride) != own) continue;
    ++recent.times;
    if (i < thread_index()) recent.id = -1;
  }
  return recent;
}

// Masks, and penalties of the tokens that are counted; those of the history, an invocation each, with their whole count.
void mask_and_penalise() {
  const uint64_t words = mask_of_row();
  const Penalties penalties = Penalties(real(kRepetitionPenalty), real(kPresencePenalty), real(kFrequencyPenalty));
  const bool penalises = penalties.repetition != 1.0 || penalties.frequency != 0.0 || penalties.presence != 0.0;
  if (words == 0 && !penalises) return;
  const uint64_t counts = params.counts + uint64_t(slot) * params.vocab_size * 4;
  RecentToken recent = RecentToken(-1, 0);
  if (penalises) recent = find_recent();
  float recent_logit = 0.0;
  if (recent.id >= 0) {
    const int count = (load_i32(counts, recent.id) & (kInPrompt - 1)) + recent.times;
    recent_logit = penalised(masked(logit_of(x, recent.id), words, recent.id), count, penalties);
  }
  meet();
  for (uint v = thread_index(); v < params.vocab_size; v += kThreads) {
    const int count = penalises ? load_i32(counts, v) : 0;
    const float logit = masked(logit_of(x, v), words, v);
    set_logit(v, count == 0 ? logit : penalised(logit, count & (kInPrompt - 1), penalties));
  }
  meet();
  if (recent.id >= 0) set_logit(recent.id, recent_logit);
  meet();
}

// NaN to -infinity. Returns the largest logit.
float clean() {
  RowBest best = RowBest(0, 0);
  for (uint v = thread_index(); v < params.vocab_size; v += kThreads) {
    const uint rank = rank_of(logit_of(x, v));
    if (rank == 0) set_logit(v, -kInfinity);
    if (rank > best.rank) best = RowBest(rank, v);
  }
  best = row_best(best);
  meet();
  return best.rank == 0 ? -kInfinity : logit_of(x, best.index);
}

void scale(float best) {
  const float temperature = real(kTemperature);
  meet();  // all have read the best
  for (uint v = thread_index(); v < params.vocab_size; v += kThreads) {
    const float logit = logit_of(x, v);
    precise const float below = logit - best;
    set_logit(v, logit == best ? 0.0 : exact_quotient(below, temperature));
  }
  meet();
}

// What comes after the cut's last logit in the order, and after the first `num_last` that equal it, becomes -infinity.
void keep(float last, uint64_t num_last) {
  const uint last_index = index_of_equal(x, params.vocab_size, last, num_last);
  meet();
  for (uint v = thread_index(); v < params.vocab_size; v += kThreads) {
    const float logit = logit_of(x, v);
    if (logit < last || (logit == last && v > last_index)) set_logit(v, -kInfinity);
  }
  meet();
}

void keep_top_k(uint k) {
  const OrderCut cut = cut_of_order(x, params.vocab_size, OrderAmount(false, k, 0.0));
  keep(cut.last, cut.missing);
}

void keep_top_p(float share) {
  const OrderCut cut = cut_of_order(x, params.vocab_size, OrderAmount(true, 0, share));
  const uint64_t weight = sampling_weight(cut.last);
  keep(cut.last, (cut.missing + weight - 1) / weight);
}

void keep_min_p(float share) {
  const uint64_t least = share_of(kLargestWeight, share);
  for (uint v = thread_index(); v < params.vocab_size; v += kThreads) {
    if (sampling_weight(logit_of(x, v)) < least) set_logit(v, -kInfinity);
  }
}

void main() {
  row = gl_WorkGroupID.x;
  const int own_slot = load_i32(params.row_slots, row);
  if (own_slot < 0 || uint(own_slot) >= params.num_slots) return;
  slot = uint(own_slot);
  x = params.logits + uint64_t(row) * params.logits_stride * 4;
  add_biases();
  forbid_stops();
  mask_and_penalise();
  const float best = clean();
  if (real(kTemperature) <= 0.0 || best == -kInfinity) return;
  scale(best);
  const int top_k = integer(kTopK);
  if (top_k > 0 && uint(top_k) < params.vocab_size) keep_top_k(uint(top_k));
  if (real(kTopP) < 1.0) keep_top_p(real(kTopP));
  if (real(kMinP) > 0.0) keep_min_p(real(kMinP));
}
