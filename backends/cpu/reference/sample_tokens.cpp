#include <algorithm>
#include <numeric>
#include <vector>

#include "backends/cpu/reference/host_tensor.h"
#include "backends/cpu/reference/reference.h"
#include "backends/cpu/reference/sampled_row.h"

namespace foretoken {
namespace {

/// The first `count` tokens in the order of falling logits whose weight is not 0, by rising id.
std::vector<size_t> candidates_of_row(const Tensor& logits, int64_t t, size_t count) {
  const HostTensor row(logits);
  std::vector<size_t> order;
  const std::vector<uint64_t> weights = weights_of_row(logits, t);
  for (size_t v = 0; v < weights.size(); ++v) {
    if (weights[v] > 0) order.push_back(v);
  }
  std::ranges::stable_sort(order, std::ranges::greater(), [&](size_t v) { return row(t, v); });
  order.resize(std::min(order.size(), count));
  std::ranges::sort(order);
  return order;
}

}  // namespace

void reference(const SampleTokens& op) {
  for (int64_t t = 0; t < op.logits.dim(0); ++t) {
    const RowSlot slot(op.row_slots, t, op.reals);
    int64_t token = best_of_row(op.logits, t);
    uint64_t sum = 0;
    if (slot.is_sampled()) {
      const std::vector<uint64_t> weights = weights_of_row(op.logits, t);
      sum = sum_of(weights);
      const auto seed = static_cast<uint64_t>(wide_integer(op.seeds, slot.slot));
      const int64_t position = HostTensor(op.positions).integer(t);
      token = static_cast<int64_t>(draw(weights, random_bits(seed, position, RandomPurpose::kToken, 0)));
    }
    HostTensor(op.token_ids).set(static_cast<double>(token), t);
    set_wide_integer(op.weight_sums, t, static_cast<int64_t>(sum));
  }
}

void reference(const SampleDrafts& op) {
  const int64_t width = op.candidate_ids.dim(1);
  const HostTensor ids(op.candidate_ids);
  for (int64_t b = 0; b < op.logits.dim(0); ++b) {
    for (int64_t i = 0; i < width; ++i) {
      ids.set(-1.0, b, i);
      set_wide_integer(op.candidate_weights, b * width + i, 0);
    }
    const RowSlot slot(op.row_slots, b, op.reals);
    int64_t token = best_of_row(op.logits, b);
    const auto greedy = static_cast<int64_t>(DraftSampling::kGreedy);
    if (slot.is_sampled() && HostTensor(op.integers).integer(slot.slot, kDraftSampling) != greedy) {
      const std::vector<uint64_t> all = weights_of_row(op.logits, b);
      const std::vector<size_t> candidates = candidates_of_row(op.logits, b, static_cast<size_t>(width));
      std::vector<uint64_t> weights;
      for (size_t i = 0; i < candidates.size(); ++i) {
        weights.push_back(all[candidates[i]]);
        ids.set(static_cast<double>(candidates[i]), b, static_cast<int64_t>(i));
        set_wide_integer(op.candidate_weights, b * width + static_cast<int64_t>(i), static_cast<int64_t>(weights[i]));
      }
      const auto seed = static_cast<uint64_t>(wide_integer(op.seeds, slot.slot));
      const int64_t position = HostTensor(op.positions).integer(b);
      const size_t drawn = draw(weights, random_bits(seed, position, RandomPurpose::kDraft, op.draft_idx));
      token = candidates.empty() ? 0 : static_cast<int64_t>(candidates[drawn]);
    }
    HostTensor(op.token_ids).set(static_cast<double>(token), b);
  }
}

}  // namespace foretoken
