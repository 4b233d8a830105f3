// A row of logits as a work group of kThreads walks over it: sums and the best of it, cuts of its order, and draws
// (core/ops/sampling_rules.h). Sums are of integers and gathered with atomics, so that neither an order of adding nor the size of
// a subgroup shows. Every invocation of the group calls these functions, in uniform control flow, and all get the result.
#ifndef FORETOKEN_ROW_GLSL
#define FORETOKEN_ROW_GLSL

// Parts of a range that draw_index tells apart, and the invocations that add up one of them.
const uint kRowParts = 32;
const uint kPartLanes = kThreads / kRowParts;
const uint kKeyBits = 31;
const uint kDigitBits = 3;
const uint kDigits = 1u << kDigitBits;

const uint64_t kLargestWeight = 1ul << 40;
const float kLowestWeighted = -28.0;

// Columns of the parameters of a slot, as SamplingReal and SamplingInteger number them, and the values of DraftSampling.
const uint kTemperature = 0;
const uint kTopP = 1;
const uint kMinP = 2;
const uint kRepetitionPenalty = 3;
const uint kPresencePenalty = 4;
const uint kFrequencyPenalty = 5;
const uint kNumSamplingReals = 6;
const uint kTopK = 0;
const uint kFirstStopRow = 1;
const uint kDraftSampling = 2;
const uint kNumSamplingIntegers = 3;
const int kInPrompt = 1 << 30;
const int kGreedyDrafts = 0;
const int kRejectionDrafts = 1;
const uint kMaxDraftCandidates = 256;
// RandomPurpose.
const uint kForToken = 0;
const uint kForDraft = 1;
const uint kForAccept = 2;

shared uint sum_low[kRowParts];
shared uint sum_high[kRowParts];
shared uint best_key;
shared uint best_index;

// Invocations read what others of the group wrote where the row is worked on in place.
#ifdef FORETOKEN_ROW_IS_UPDATED
layout(buffer_reference, scalar, buffer_reference_align = 4) coherent buffer LogitRef { float value; };
#else
layout(buffer_reference, scalar, buffer_reference_align = 4) readonly buffer LogitRef { float value; };
#endif

uint64_t load_bits(uint64_t base, uint64_t index) { return uint64_t(load_i64(base, index)); }
void store_bits(uint64_t base, uint64_t index, uint64_t value) { I64Ref(base + index * 8).value = int64_t(value); }

float logit_of(uint64_t x, uint v) { return LogitRef(x + uint64_t(v) * 4).value; }

uint64_t mix_bits(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ul;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebul;
  return z ^ (z >> 31);
}

uint64_t random_bits(uint64_t seed, int position, uint purpose, uint index) {
  const uint64_t step = 0x9e3779b97f4a7c15ul;
  uint64_t z = mix_bits(seed + step);
  z = mix_bits((z ^ uint64_t(int64_t(position))) + step);
  return mix_bits((z ^ (uint64_t(purpose) << 32 | uint64_t(index))) + step);
}

// The upper 64 bits of a * b.
uint64_t multiply_high(uint64_t a, uint64_t b) {
  const uint64_t mask = 0xfffffffful;
  const uint64_t low = (a & mask) * (b & mask);
  const uint64_t first = (a >> 32) * (b & mask) + (low >> 32);
  const uint64_t second = (a & mask) * (b >> 32) + (first & mask);
  return (a >> 32) * (b >> 32) + (first >> 32) + (second >> 32);
}

// The operations of clamped_weight of core/ops/sampling_rules.h, one by one.
uint64_t sampling_weight(float logit) {
  const float low = logit > kLowestWeighted ? logit : kLowestWeighted;
  const float x = low < 0.0 ? low : 0.0;
  precise float shifted = x * 1.44269504088896341;
  shifted = shifted + 12582912.0;
  precise const float n = shifted - 12582912.0;
  precise float r = n * 0.693359375;
  r = x - r;
  precise const float rest = n * 2.12194440e-4;
  r = r + rest;
  precise float p = 1.0 / 5040.0;
  p = p * r;
  p = p + 1.0 / 720.0;
  p = p * r;
  p = p + 1.0 / 120.0;
  p = p * r;
  p = p + 1.0 / 24.0;
  p = p * r;
  p = p + 1.0 / 6.0;
  p = p * r;
  p = p + 0.5;
  p = p * r;
  p = p + 1.0;
  p = p * r;
  p = p + 1.0;
  p = p * 16777216.0;
  return (uint64_t(uint(p)) << 16) >> uint(-n);
}

// total * share, rounded down, for a share of [0, 1]: its 2^32nds are taken in two steps that are exact.
uint64_t share_of(uint64_t total, float share) {
  precise const float scaled = share * 65536.0;
  const float whole = floor(scaled);
  precise const float rest = (scaled - whole) * 65536.0;
  const uint64_t fixed_share = (uint64_t(uint(whole)) << 16) + uint64_t(uint(rest));
  return (total >> 32) * fixed_share + ((total & 0xfffffffful) * fixed_share >> 32);
}

// The first `count` sums become 0.
void clear_sums(uint count) {
  barrier();
  if (thread_index() < count) {
    sum_low[thread_index()] = 0;
    sum_high[thread_index()] = 0;
  }
  barrier();
}

// Adds to a sum, with the carry from its lower half.
void add_to_sum(uint at, uint64_t value) {
  if (value == 0) return;
  const uint low = uint(value);
  const uint before = atomicAdd(sum_low[at], low);
  atomicAdd(sum_high[at], uint(value >> 32) + (before + low < low ? 1u : 0u));
}

uint64_t sum_at(uint at) { return uint64_t(sum_high[at]) << 32 | uint64_t(sum_low[at]); }

uint64_t row_sum(uint64_t value) {
  clear_sums(1);
  add_to_sum(0, value);
  barrier();
  return sum_at(0);
}

// A number that grows with the value, at least 1; both zeros have one. 0 of NaN.
uint rank_of(float value) {
  const uint bits = floatBitsToUint(value);
  const uint magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return 0;
  return bits == magnitude ? 0x80000000u + magnitude : 0x80000000u - magnitude;
}

// The largest rank of the invocations' and the lowest index that has it; rank 0 without one.
struct RowBest {
  uint rank;
  uint index;
};

RowBest row_best(RowBest own) {
  barrier();
  if (thread_index() == 0) {
    best_key = 0;
    best_index = 0xffffffffu;
  }
  barrier();
  atomicMax(best_key, own.rank);
  barrier();
  if (own.rank == best_key && own.rank != 0) atomicMin(best_index, own.index);
  barrier();
  return RowBest(best_key, best_index);
}

// Argmax of a row: NaN never wins, and a row of NaN gives 0.
int row_argmax(uint64_t x, uint n) {
  RowBest best = RowBest(0, 0);
  for (uint v = thread_index(); v < n; v += kThreads) {
    const uint rank = rank_of(logit_of(x, v));
    if (rank > best.rank) best = RowBest(rank, v);
  }
  best = row_best(best);
  return best.rank == 0 ? 0 : int(best.index);
}

// The place of a logit of at most 0 in the order of falling logits, and back: -0.0 for 0, which equals it.
uint order_key(float x) { return floatBitsToUint(x) & 0x7fffffffu; }
float logit_of_key(uint key) { return uintBitsToFloat(key | 0x80000000u); }

// Where the first tokens of the order come to a given amount.
struct OrderCut {
  float last;        // with the tokens of this logit they reach it,
  uint64_t missing;  // to which those before lack so much (at least 1)
};

// What tokens are counted by: each as 1 up to `limit`, or by their weights up to `share` of their sum, at least 1.
struct OrderAmount {
  bool by_weight;
  uint limit;
  float share;
};

uint64_t needed_of(OrderAmount amount, uint64_t whole) {
  if (!amount.by_weight) return uint64_t(amount.limit);
  return max(share_of(whole, amount.share), 1ul);
}

// The cut at which the amounts of the tokens reach what is needed, digit by digit of the key, from the top, a pass over the row
// for each.
OrderCut cut_of_order(uint64_t x, uint n, OrderAmount amount) {
  uint key = 0;
  uint64_t missing = 0;
  uint open = kKeyBits;
  while (open > 0) {
    const uint shift = open > kDigitBits ? open - kDigitBits : 0;
    uint64_t sums[kDigits];
    [[unroll]] for (uint digit = 0; digit < kDigits; ++digit) sums[digit] = 0;
    for (uint v = thread_index(); v < n; v += kThreads) {
      const float logit = logit_of(x, v);
      const uint offset = order_key(logit) - key;
      if (offset >> open != 0) continue;
      const uint64_t own = amount.by_weight ? sampling_weight(logit) : 1ul;
      [[unroll]] for (uint digit = 0; digit < kDigits; ++digit) sums[digit] += offset >> shift == digit ? own : 0ul;
    }
    clear_sums(kDigits);
    [[unroll]] for (uint digit = 0; digit < kDigits; ++digit) add_to_sum(digit, sums[digit]);
    barrier();
    uint64_t whole = 0;
    [[unroll]] for (uint digit = 0; digit < kDigits; ++digit) {
      sums[digit] = sum_at(digit);
      whole += sums[digit];
    }
    if (open == kKeyBits) missing = needed_of(amount, whole);
    bool found = false;
    [[unroll]] for (uint digit = 0; digit < kDigits; ++digit) {
      if (!found) {
        found = sums[digit] >= missing;
        if (found) {
          key += digit << shift;
        } else {
          missing -= sums[digit];
        }
      }
    }
    open = shift;
  }
  return OrderCut(logit_of_key(key), missing);
}

// What invocation `lane` of kPartLanes adds up of a range of the row, all of them together the whole: each shader that draws has
// its own.
uint64_t lane_amounts(uint64_t x, uint begin, uint end, uint lane);

// The first index of [0, n) with which the sum of the amounts passes `number`, below their sum.
uint draw_index(uint64_t x, uint n, uint64_t number) {
  uint begin = 0;
  uint end = n;
  while (end - begin > 1) {
    const uint size = (end - begin + kRowParts - 1) / kRowParts;
    const uint part = thread_index() / kPartLanes;
    const uint own_begin = min(begin + part * size, end);
    const uint64_t own = lane_amounts(x, own_begin, min(own_begin + size, end), thread_index() % kPartLanes);
    clear_sums(kRowParts);
    add_to_sum(part, own);
    barrier();
    uint chosen = 0;
    while (chosen + 1 < kRowParts && sum_at(chosen) <= number) number -= sum_at(chosen++);
    begin = min(begin + chosen * size, end - 1);
    end = min(begin + size, end);
  }
  return begin;
}

// What a lane adds up of the weights of a range.
uint64_t lane_weights(uint64_t x, uint begin, uint end, uint lane) {
  uint64_t sum = 0;
  for (uint v = begin + lane; v < end; v += kPartLanes) sum += sampling_weight(logit_of(x, v));
  return sum;
}

// Slot of a row that is sampled; -1: none, or at temperature 0.
int sampled_slot(int slot, uint64_t reals, uint num_slots) {
  if (slot < 0 || uint(slot) >= num_slots) return -1;
  return load_f32(reals, uint(slot) * kNumSamplingReals + kTemperature) > 0.0 ? slot : -1;
}

int draft_sampling(uint64_t integers, int slot) {
  return slot < 0 ? kGreedyDrafts : load_i32(integers, uint(slot) * kNumSamplingIntegers + kDraftSampling);
}

#endif
