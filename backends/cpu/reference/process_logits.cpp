#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "backends/cpu/reference/host_tensor.h"
#include "backends/cpu/reference/reference.h"

namespace foretoken {
namespace {

constexpr float kForbidden = -std::numeric_limits<float>::infinity();

/// One row, with what its slot says about it. Float32 operations, as the operator is declared.
class Row {
 public:
  Row(const ProcessLogits& op, int64_t t) : op_(op), logits_(op.logits), t_(t) {
    slot_ = HostTensor(op.row_slots).integer(t);
    for (int64_t v = 0; v < logits_.dim(1); ++v) {
      const auto logit = static_cast<float>(logits_(t, v));
      row_.push_back(std::isnan(logit) ? kForbidden : logit);
    }
  }

  [[nodiscard]] bool has_slot() const { return slot_ >= 0 && slot_ < op_.reals.dim(0); }

  void run() {
    add_biases();
    forbid();
    penalise();
    if (real(kTemperature) > 0.0F) {
      scale();
      keep(num_kept());
    }
    for (size_t v = 0; v < row_.size(); ++v) logits_.set(row_[v], t_, static_cast<int64_t>(v));
  }

 private:
  [[nodiscard]] float real(SamplingReal column) const { return static_cast<float>(HostTensor(op_.reals)(slot_, column)); }
  [[nodiscard]] int64_t integer(SamplingInteger column) const { return HostTensor(op_.integers).integer(slot_, column); }
  [[nodiscard]] bool exists(int64_t id) const { return id >= 0 && id < static_cast<int64_t>(row_.size()); }

  void add_biases() {
    const HostTensor ids(op_.bias_ids);
    const HostTensor values(op_.bias_values);
    for (int64_t i = 0; i < ids.dim(1); ++i) {
      const int64_t id = ids.integer(slot_, i);
      if (exists(id)) row_[static_cast<size_t>(id)] += static_cast<float>(values(slot_, i));
    }
  }

  void forbid() {
    const int64_t mask = op_.mask_rows ? HostTensor(op_.mask_rows).integer(t_) : -1;
    for (int64_t v = 0; mask >= 0 && v < static_cast<int64_t>(row_.size()); ++v) {
      const auto word = static_cast<uint32_t>(HostTensor(op_.masks).integer(mask, v / 32));
      if ((word >> (v % 32) & 1U) == 0) row_[static_cast<size_t>(v)] = kForbidden;
    }
    if (HostTensor(op_.positions).integer(t_) >= integer(kFirstStopRow)) return;
    const HostTensor stops(op_.stop_ids);
    for (int64_t i = 0; i < stops.dim(1); ++i) {
      const int64_t id = stops.integer(slot_, i);
      if (exists(id)) row_[static_cast<size_t>(id)] = kForbidden;
    }
  }

  void penalise() {
    const HostTensor counts(op_.counts);
    std::vector<int64_t> output(row_.size());
    std::vector<bool> seen(row_.size());
    for (size_t v = 0; v < row_.size(); ++v) {
      const int64_t count = counts.integer(slot_, static_cast<int64_t>(v));
      output[v] = count & (kInPrompt - 1);
      seen[v] = count != 0;
    }
    const HostTensor history(op_.history);
    const HostTensor ids(op_.history_ids);
    for (int64_t i = 0; i < history.integer(t_, 1); ++i) {
      const int64_t token = ids.integer(history.integer(t_, 0) + i * op_.history_stride);
      if (!exists(token)) continue;
      const auto id = static_cast<size_t>(token);
      ++output[id];
      seen[id] = true;
    }
    for (size_t v = 0; v < row_.size(); ++v) {
      float& l = row_[v];
      if (seen[v]) l = l > 0.0F ? l / real(kRepetitionPenalty) : l * real(kRepetitionPenalty);
      if (output[v] == 0) continue;
      l = l - real(kFrequencyPenalty) * static_cast<float>(output[v]);
      l = l - real(kPresencePenalty);
    }
  }

  void scale() {
    const float best = *std::ranges::max_element(row_);
    if (best == kForbidden) return;
    for (float& l : row_) l = l == best ? 0.0F : (l - best) / real(kTemperature);
  }

  /// How many tokens of the order top-k and top-p keep.
  size_t num_kept() {
    order_.resize(row_.size());
    std::iota(order_.begin(), order_.end(), size_t{0});
    std::ranges::stable_sort(order_, std::ranges::greater(), [&](size_t v) { return row_[v]; });
    const auto weight = [&](size_t i) { return sampling_weight(row_[order_[i]]); };
    size_t kept = row_.size();
    if (const int64_t k = integer(kTopK); k > 0) kept = std::min(kept, static_cast<size_t>(k));
    if (const float p = real(kTopP); p < 1.0F) {
      uint64_t sum = 0;
      for (size_t i = 0; i < kept; ++i) sum += weight(i);
      uint64_t before = weight(0);
      size_t i = 1;
      for (; i < kept && before < share_of(sum, p); ++i) before += weight(i);
      kept = i;
    }
    return kept;
  }

  /// The first `count` of the order, and of those the ones that min-p keeps.
  void keep(size_t count) {
    for (size_t i = count; i < order_.size(); ++i) row_[order_[i]] = kForbidden;
    const uint64_t least = share_of(kLargestWeight, real(kMinP));
    for (float& x : row_) {
      if (sampling_weight(x) < least) x = kForbidden;
    }
  }

  const ProcessLogits& op_;
  HostTensor logits_;
  int64_t t_;
  int64_t slot_ = -1;
  std::vector<float> row_;
  std::vector<size_t> order_;
};

}  // namespace

void reference(const ProcessLogits& op) {
  for (int64_t t = 0; t < op.logits.dim(0); ++t) {
    Row row(op, t);
    if (row.has_slot()) row.run();
  }
}

void reference(const CountTokens& op) {
  const HostTensor slots(op.slots);
  const HostTensor ids(op.token_ids);
  const HostTensor counts(op.counts);
  for (int64_t i = 0; i < slots.dim(0); ++i) {
    const int64_t slot = slots.integer(i);
    const int64_t id = ids.integer(i);
    if (slot < 0 || slot >= counts.dim(0) || id < 0 || id >= counts.dim(1)) continue;
    counts.set(counts(slot, id) + 1.0, slot, id);
  }
}

}  // namespace foretoken
