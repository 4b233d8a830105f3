// What a request's parameters do to a row of logits, and the counts of its tokens.
#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/kernels/norm_rows.h"
#include "backends/cpu/kernels/sample_params.h"
#include "backends/cpu/kernels/token_weights.h"

namespace foretoken::cpu::FORETOKEN_CPU_ISA {
namespace {

constexpr float kForbidden = -__builtin_inff();
constexpr int32_t kMostRecent = kMaxVerifiedDrafts + 1;

/// One row and the parameters of its slot.
class LogitsRow {
 public:
  LogitsRow(const ProcessLogitsParams& p, size_t row, size_t slot)
      : p_(p),
        row_(row),
        slot_(slot),
        x_(p.logits + row * p.logits_stride),
        reals_(p.reals + slot * kNumSamplingReals),
        integers_(p.integers + slot * kNumSamplingIntegers) {}

  void run() {
    add_biases();
    forbid();
    penalise();
    const float best = clean();
    if (reals_[kTemperature] <= 0.0F || best == kForbidden) return;
    scale(best);
    if (integers_[kTopK] > 0 && static_cast<size_t>(integers_[kTopK]) < p_.vocab_size) keep_top_k();
    if (reals_[kTopP] < 1.0F) keep_top_p();
    if (reals_[kMinP] > 0.0F) keep_min_p();
  }

 private:
  [[nodiscard]] bool exists(int32_t id) const { return id >= 0 && static_cast<size_t>(id) < p_.vocab_size; }

  void add_biases() {
    const int32_t* ids = p_.bias_ids + slot_ * p_.num_biases;
    const float* values = p_.bias_values + slot_ * p_.num_biases;
    for (size_t i = 0; i < p_.num_biases; ++i) {
      if (exists(ids[i])) x_[ids[i]] += values[i];
    }
  }

  void forbid() {
    const int32_t mask_row = p_.mask_rows == nullptr ? -1 : p_.mask_rows[row_];
    if (mask_row >= 0 && static_cast<size_t>(mask_row) < p_.num_masks) {
      const uint32_t* words = p_.masks + static_cast<size_t>(mask_row) * ((p_.vocab_size + 31) / 32);
      for (size_t first = 0; first < p_.vocab_size; first += 32) {
        const uint32_t word = words[first / 32];
        const size_t count = p_.vocab_size - first < 32 ? p_.vocab_size - first : 32;
        for (size_t i = 0; i < count && word != 0xffffffffU; ++i) {
          if ((word >> i & 1U) == 0) x_[first + i] = kForbidden;
        }
      }
    }
    if (p_.positions[row_] >= integers_[kFirstStopRow]) return;
    const int32_t* stops = p_.stop_ids + slot_ * p_.num_stops;
    for (size_t i = 0; i < p_.num_stops; ++i) {
      if (exists(stops[i])) x_[stops[i]] = kForbidden;
    }
  }

  /// A logit whose token is seen, `count` (kInPrompt left out) times in the output.
  [[nodiscard]] float penalised(float x, int32_t count) const {
    const float repeated = x > 0.0F ? x / reals_[kRepetitionPenalty] : x * reals_[kRepetitionPenalty];
    if (count == 0) return repeated;
    const float frequent = repeated - reals_[kFrequencyPenalty] * static_cast<float>(count);
    return frequent - reals_[kPresencePenalty];
  }

  void penalise() {
    if (reals_[kRepetitionPenalty] == 1.0F && reals_[kFrequencyPenalty] == 0.0F && reals_[kPresencePenalty] == 0.0F) return;
    const int32_t* counts = p_.counts + slot_ * p_.vocab_size;
    // The tokens of the block first, each with its whole count; the pass over the counts must then leave them alone.
    struct Recent {
      int32_t id;
      float value;
    };
    Recent recent[kMostRecent];
    size_t num_recent = 0;
    for_recent([&](int32_t id, int32_t times) {
      recent[num_recent++] = {.id = id, .value = penalised(x_[id], (counts[id] & (kInPrompt - 1)) + times)};
    });
    for (size_t first = 0; first < p_.vocab_size; first += kLanes) {
      const size_t count = lanes_left(p_.vocab_size, first);
      int32_t any = 0;
      for (size_t i = first; i < first + count; ++i) any |= counts[i];
      for (size_t i = first; any != 0 && i < first + count; ++i) {
        if (counts[i] != 0) x_[i] = penalised(x_[i], counts[i] & (kInPrompt - 1));
      }
    }
    for (size_t i = 0; i < num_recent; ++i) x_[recent[i].id] = recent[i].value;
  }

  /// Calls use(id, times) for each token of the row's history, once.
  template <class Use>
  void for_recent(const Use& use) const {
    const int32_t* ids = p_.history_ids + p_.history[2 * row_];
    const int32_t count = p_.history[2 * row_ + 1] < kMostRecent ? p_.history[2 * row_ + 1] : kMostRecent;
    const auto token = [&](int32_t i) { return ids[static_cast<size_t>(i) * p_.history_stride]; };
    for (int32_t i = 0; i < count; ++i) {
      int32_t times = 0;
      bool is_first = exists(token(i));
      for (int32_t j = 0; j < count; ++j) {
        times += token(j) == token(i) ? 1 : 0;
        is_first &= j >= i || token(j) != token(i);
      }
      if (is_first) use(token(i), times);
    }
  }

  /// NaN to -infinity. Returns the largest logit.
  float clean() {
    const F32x16 lowest = F32x16::broadcast(kForbidden);
    F32x16 best = lowest;
    for_each_vector(p_.vocab_size, [&](size_t i, size_t count) {
      const F32x16 values = max(load_lanes(x_ + i, count), lowest);  // which is what is left of NaN
      store_lanes(values, x_ + i, count);
      if (count == kLanes) best = max(values, best);
    });
    float largest = reduce_max(best);
    for (size_t i = p_.vocab_size / kLanes * kLanes; i < p_.vocab_size; ++i) largest = x_[i] > largest ? x_[i] : largest;
    return largest;
  }

  void scale(float best) {
    const float temperature = reals_[kTemperature];
    for (size_t v = 0; v < p_.vocab_size; ++v) x_[v] = x_[v] == best ? 0.0F : (x_[v] - best) / temperature;
  }

  void keep_top_k() {
    const auto k = static_cast<uint64_t>(integers_[kTopK]);
    const auto one_each = [](size_t, size_t count, uint64_t* out) {
      for (size_t i = 0; i < count; ++i) out[i] = 1;
    };
    const OrderCut cut = cut_of_order(x_, p_.vocab_size, one_each, [k](uint64_t) { return k; });
    keep(logit_of_key(cut.key), cut.missing);
  }

  void keep_top_p() {
    const auto weights = [this](size_t first, size_t count, uint64_t* out) { block_weights(x_ + first, count, out); };
    const auto needed = [this](uint64_t whole) {
      const uint64_t share = share_of(whole, reals_[kTopP]);
      return share > 0 ? share : 1;
    };
    const OrderCut cut = cut_of_order(x_, p_.vocab_size, weights, needed);
    const float last = logit_of_key(cut.key);
    const uint64_t weight = sampling_weight(last);
    keep(last, (cut.missing + weight - 1) / weight);
  }

  /// What comes after `last` in the order, and after the first `num_last` that equal it, becomes -infinity.
  void keep(float last, uint64_t num_last) {
    for (size_t v = 0; v < p_.vocab_size; ++v) {
      if (x_[v] > last) continue;
      if (x_[v] == last && num_last > 0) {
        --num_last;
      } else {
        x_[v] = kForbidden;
      }
    }
  }

  void keep_min_p() {
    const uint64_t least = share_of(kLargestWeight, reals_[kMinP]);
    for_each_block(x_, p_.vocab_size, [&](size_t first, size_t count, const uint64_t* weights) {
      for (size_t i = 0; i < count; ++i) x_[first + i] = weights[i] >= least ? x_[first + i] : kForbidden;
    });
  }

  const ProcessLogitsParams& p_;
  size_t row_;
  size_t slot_;
  float* x_;
  const float* reals_;
  const int32_t* integers_;
};

void process_logits(const ProcessLogitsParams& p, uint32_t begin, uint32_t end) {
  for (size_t row = begin; row < end; ++row) {
    const int32_t slot = p.row_slots[row];
    if (slot >= 0 && static_cast<size_t>(slot) < p.num_slots) LogitsRow(p, row, static_cast<size_t>(slot)).run();
  }
}

void count_tokens(const CountTokensParams& p, uint32_t, uint32_t) {
  for (size_t i = 0; i < p.num_tokens; ++i) {
    const int32_t slot = p.slots[i];
    const int32_t id = p.token_ids[i];
    if (slot < 0 || static_cast<size_t>(slot) >= p.num_slots || id < 0 || static_cast<size_t>(id) >= p.vocab_size) continue;
    p.counts[static_cast<size_t>(slot) * p.vocab_size + static_cast<size_t>(id)] += 1;
  }
}

constexpr KernelEntry kEntries[] = {
    kernel_entry<ProcessLogitsParams, process_logits>("process_logits"),
    kernel_entry<CountTokensParams, count_tokens>("count_tokens"),
};

}  // namespace

void add_process_logits_kernels(std::vector<KernelEntry>& list) { append(list, kEntries); }

}  // namespace foretoken::cpu::FORETOKEN_CPU_ISA
