// Draws from processed logits, and the verification of drafts that were drawn.
#include "backends/cpu/kernels/argmax_row.h"
#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/kernels/sample_params.h"
#include "backends/cpu/kernels/token_weights.h"

namespace foretoken::cpu::FORETOKEN_CPU_ISA {
namespace {

/// Slot of a row that is sampled; -1: none, or at temperature 0.
FORETOKEN_SIMD_INLINE int32_t sampled_slot(int32_t slot, const float* reals, size_t num_slots) {
  const bool exists = slot >= 0 && static_cast<size_t>(slot) < num_slots;
  return exists && reals[static_cast<size_t>(slot) * kNumSamplingReals + kTemperature] > 0.0F ? slot : -1;
}

FORETOKEN_SIMD_INLINE DraftSampling draft_sampling(const int32_t* integers, int32_t slot) {
  if (slot < 0) return DraftSampling::kGreedy;
  return static_cast<DraftSampling>(integers[static_cast<size_t>(slot) * kNumSamplingIntegers + kDraftSampling]);
}

void sample_tokens(const SampleTokensParams& p, uint32_t begin, uint32_t end) {
  for (size_t row = begin; row < end; ++row) {
    const float* x = p.logits + row * p.logits_stride;
    const int32_t slot = sampled_slot(p.row_slots[row], p.reals, p.num_slots);
    if (slot < 0) {
      p.token_ids[row] = static_cast<int32_t>(argmax_row(x, p.vocab_size));
      p.weight_sums[row] = 0;
      continue;
    }
    const uint64_t sum = sum_weights(x, p.vocab_size);
    const uint64_t bits = random_bits(static_cast<uint64_t>(p.seeds[slot]), p.positions[row], RandomPurpose::kToken, 0);
    const auto as_they_are = [](size_t, size_t, uint64_t*) {};
    p.token_ids[row] = static_cast<int32_t>(draw_from_row(x, p.vocab_size, multiply_high(bits, sum), as_they_are));
    p.weight_sums[row] = sum;
  }
}

/// Fills the candidates of row b, by rising id, and returns how many there are.
size_t list_candidates(const SampleDraftsParams& p, size_t b) {
  const float* x = p.logits + b * p.logits_stride;
  size_t num_weighted = 0;
  for (size_t v = 0; v < p.vocab_size; ++v) num_weighted += x[v] > kLowestWeighted ? 1U : 0U;
  float last = kLowestWeighted;
  uint64_t num_last = 0;
  if (num_weighted > p.num_candidates) {
    const auto one_each = [](size_t, size_t count, uint64_t* out) {
      for (size_t i = 0; i < count; ++i) out[i] = 1;
    };
    const OrderCut cut = cut_of_order(x, p.vocab_size, one_each, [&p](uint64_t) { return uint64_t{p.num_candidates}; });
    last = logit_of_key(cut.key);
    num_last = cut.missing;
  }
  size_t count = 0;
  for (size_t v = 0; v < p.vocab_size && count < p.num_candidates; ++v) {
    if (!(x[v] >= last)) continue;
    if (x[v] == last && num_last-- == 0) {
      num_last = 0;
      continue;
    }
    const uint64_t weight = sampling_weight(x[v]);
    if (weight == 0) continue;
    p.candidate_ids[b * p.num_candidates + count] = static_cast<int32_t>(v);
    p.candidate_weights[b * p.num_candidates + count] = weight;
    ++count;
  }
  return count;
}

void sample_drafts(const SampleDraftsParams& p, uint32_t begin, uint32_t end) {
  for (size_t b = begin; b < end; ++b) {
    int32_t* ids = p.candidate_ids + b * p.num_candidates;
    uint64_t* weights = p.candidate_weights + b * p.num_candidates;
    for (size_t i = 0; i < p.num_candidates; ++i) {
      ids[i] = -1;
      weights[i] = 0;
    }
    const int32_t slot = sampled_slot(p.row_slots[b], p.reals, p.num_slots);
    if (draft_sampling(p.integers, slot) == DraftSampling::kGreedy) {
      p.token_ids[b] = static_cast<int32_t>(argmax_row(p.logits + b * p.logits_stride, p.vocab_size));
      continue;
    }
    const size_t count = list_candidates(p, b);
    uint64_t sum = 0;
    for (size_t i = 0; i < count; ++i) sum += weights[i];
    const uint64_t bits = random_bits(static_cast<uint64_t>(p.seeds[slot]), p.positions[b], RandomPurpose::kDraft, p.draft_idx);
    uint64_t number = multiply_high(bits, sum);
    size_t drawn = 0;
    while (drawn < count && weights[drawn] <= number) number -= weights[drawn++];
    p.token_ids[b] = drawn < count ? ids[drawn] : 0;
  }
}

/// The distribution of one draft on the target's scale, beside the row that checks it.
struct Drafted {
  const float* x;      // the target's row
  uint64_t whole;      // sum of its weights
  const int32_t* ids;  // of the candidates
  const uint64_t* weights;
  size_t count;
  double scale;  // what a draft's weight is worth

  /// The target's weights less what `share` of them must cover of the draft's.
  [[nodiscard]] FORETOKEN_SIMD_INLINE uint64_t residual_at(size_t i, double share) const {
    return residual_weight(sampling_weight(x[ids[i]]), weights[i], scale, share);
  }
  [[nodiscard]] uint64_t residual_sum(double share) const {
    uint64_t sum = whole;
    for (size_t i = 0; i < count; ++i) sum += residual_at(i, share) - sampling_weight(x[ids[i]]);
    return sum;
  }
};

/// One sequence of a verify step.
class SampledSequence {
 public:
  SampledSequence(const AcceptSampledParams& p, size_t b)
      : p_(p),
        b_(b),
        first_(static_cast<size_t>(p.query_start_loc[b])),
        num_rows_(static_cast<size_t>(p.query_start_loc[b + 1]) - first_) {}

  int32_t run() {
    if (num_rows_ == 0) return 0;
    const int32_t slot = sampled_slot(p_.row_slots[first_], p_.reals, p_.num_slots);
    const DraftSampling kind = draft_sampling(p_.integers, slot);
    if (kind == DraftSampling::kGreedy) return count_equal();
    seed_ = static_cast<uint64_t>(p_.seeds[slot]);
    double share = 1.0;
    const size_t accepted = kind == DraftSampling::kRejection ? reject() : verify_block(share);
    if (accepted + 1 < num_rows_) draw_after(accepted, share);
    for (size_t j = 1; j <= accepted; ++j) p_.picks[first_ + j - 1] = draft(j);
    return static_cast<int32_t>(accepted);
  }

 private:
  [[nodiscard]] int32_t draft(size_t j) const { return p_.token_ids[first_ + j]; }
  [[nodiscard]] double uniform(size_t j) const {
    return unit_interval(random_bits(seed_, p_.positions[first_], RandomPurpose::kAccept, static_cast<uint32_t>(j)));
  }

  [[nodiscard]] bool exists(int32_t id) const { return id >= 0 && static_cast<size_t>(id) < p_.vocab_size; }

  int32_t count_equal() const {
    size_t accepted = 0;
    while (accepted + 1 < num_rows_ && draft(accepted + 1) == p_.picks[first_ + accepted]) ++accepted;
    return static_cast<int32_t>(accepted);
  }

  /// Where q_j is listed, with the draft among its candidates; else the draft alone.
  [[nodiscard]] Drafted drafted(size_t j) {
    const size_t row = first_ + j - 1;
    Drafted d{.x = p_.logits + row * p_.logits_stride,
              .whole = p_.weight_sums[row],
              .ids = &chosen_id_,
              .weights = &chosen_weight_,
              .count = 1,
              .scale = static_cast<double>(p_.weight_sums[row])};
    chosen_id_ = draft(j);
    if (!exists(chosen_id_)) d.count = 0;
    draft_weight_ = 1;
    const int32_t block_row = p_.block_rows[b_];
    if (j > p_.num_drafts || block_row < 0 || static_cast<size_t>(block_row) >= p_.num_block_rows) return d;
    const size_t list = ((j - 1) * p_.num_block_rows + static_cast<size_t>(block_row)) * p_.num_candidates;
    uint64_t sum = 0;
    uint64_t own = 0;
    size_t count = 0;
    for (; count < p_.num_candidates && exists(p_.candidate_ids[list + count]); ++count) {
      sum += p_.candidate_weights[list + count];
      if (p_.candidate_ids[list + count] == chosen_id_) own = p_.candidate_weights[list + count];
    }
    if (own == 0) return d;
    draft_weight_ = own;
    d.ids = p_.candidate_ids + list;
    d.weights = p_.candidate_weights + list;
    d.count = count;
    d.scale = static_cast<double>(d.whole) / static_cast<double>(sum);
    return d;
  }

  /// p_(j-1)(X_j) / q_j(X_j)
  [[nodiscard]] double ratio(size_t j) {
    const Drafted d = drafted(j);
    const uint64_t weight = d.count == 0 ? 0 : sampling_weight(d.x[draft(j)]);
    return weight == 0 ? 0.0 : static_cast<double>(weight) / (static_cast<double>(draft_weight_) * d.scale);
  }

  size_t reject() {
    size_t accepted = 0;
    while (accepted + 1 < num_rows_ && uniform(accepted + 1) < ratio(accepted + 1)) ++accepted;
    return accepted;
  }

  /// `share` becomes c of the accepted drafts.
  size_t verify_block(double& share) {
    size_t accepted = 0;
    double running = 1.0;
    for (size_t j = 1; j < num_rows_; ++j) {
      const double next = running * ratio(j);
      running = next < 1.0 ? next : 1.0;
      double holds = running;
      if (j + 1 < num_rows_ && running > 0.0) {
        const Drafted d = drafted(j + 1);
        const double left = running * static_cast<double>(d.residual_sum(running)) / static_cast<double>(d.whole);
        holds = left > 0.0 ? left / (left + 1.0 - running) : 0.0;
      }
      if (uniform(j) < holds) {
        accepted = j;
        share = running;
      }
    }
    return accepted;
  }

  /// The token after the accepted drafts, unless it stays the row's pick.
  void draw_after(size_t accepted, double share) {
    const size_t row = first_ + accepted;
    const Drafted d = drafted(accepted + 1);
    const uint64_t sum = d.residual_sum(share);
    if (sum == 0) return;
    const uint64_t bits = random_bits(seed_, p_.positions[row], RandomPurpose::kToken, 0);
    size_t next = 0;  // candidates before a block are done
    const auto take_drafted = [&](size_t first, size_t count, uint64_t* weights) {
      for (; next < d.count && static_cast<size_t>(d.ids[next]) < first + count; ++next) {
        weights[static_cast<size_t>(d.ids[next]) - first] = d.residual_at(next, share);
      }
    };
    p_.picks[row] = static_cast<int32_t>(draw_from_row(d.x, p_.vocab_size, multiply_high(bits, sum), take_drafted));
  }

  const AcceptSampledParams& p_;
  size_t b_;
  size_t first_;
  size_t num_rows_;
  uint64_t seed_ = 0;
  int32_t chosen_id_ = 0;
  uint64_t chosen_weight_ = 1;
  uint64_t draft_weight_ = 1;  // of the draft among its candidates
};

void accept_sampled(const AcceptSampledParams& p, uint32_t begin, uint32_t end) {
  for (size_t b = begin; b < end; ++b) p.num_accepted[b] = SampledSequence(p, b).run();
}

constexpr KernelEntry kEntries[] = {
    kernel_entry<SampleTokensParams, sample_tokens>("sample_tokens"),
    kernel_entry<SampleDraftsParams, sample_drafts>("sample_drafts"),
    kernel_entry<AcceptSampledParams, accept_sampled>("accept_sampled"),
};

}  // namespace

void add_sample_kernels(std::vector<KernelEntry>& list) { append(list, kEntries); }

}  // namespace foretoken::cpu::FORETOKEN_CPU_ISA
