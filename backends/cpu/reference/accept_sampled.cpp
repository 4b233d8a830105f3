#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "backends/cpu/reference/host_tensor.h"
#include "backends/cpu/reference/reference.h"
#include "backends/cpu/reference/sampled_row.h"

namespace foretoken {
namespace {

/// One sequence of the step.
class Sequence {
 public:
  Sequence(const AcceptSampled& op, int64_t b) : op_(op), b_(b) {
    const HostTensor starts(op.query_start_loc);
    first_ = starts.integer(b);
    num_drafts_ = std::max<int64_t>(starts.integer(b + 1) - first_ - 1, 0);
  }

  void run() {
    int64_t accepted = 0;
    if (HostTensor starts(op_.query_start_loc); starts.integer(b_ + 1) > first_) {
      const RowSlot slot(op_.row_slots, first_, op_.reals);
      const auto kind = slot.is_sampled()
                            ? static_cast<DraftSampling>(HostTensor(op_.integers).integer(slot.slot, kDraftSampling))
                            : DraftSampling::kGreedy;
      if (slot.is_sampled()) seed_ = static_cast<uint64_t>(wide_integer(op_.seeds, slot.slot));
      accepted = kind == DraftSampling::kGreedy ? count_equal() : verify(kind);
    }
    HostTensor(op_.num_accepted).set(static_cast<double>(accepted), b_);
  }

 private:
  [[nodiscard]] int64_t draft(int64_t j) const { return HostTensor(op_.token_ids).integer(first_ + j); }
  [[nodiscard]] int64_t position(int64_t row) const { return HostTensor(op_.positions).integer(row); }

  int64_t count_equal() {
    int64_t accepted = 0;
    while (accepted < num_drafts_ && draft(accepted + 1) == HostTensor(op_.picks).integer(first_ + accepted)) ++accepted;
    return accepted;
  }

  /// q of draft j: id to weight.
  [[nodiscard]] std::map<int64_t, uint64_t> drafted_from(int64_t j) const {
    std::map<int64_t, uint64_t> q;
    const Tensor& ids = op_.candidate_ids;
    const int64_t block_row = HostTensor(op_.block_rows).integer(b_);
    if (j <= ids.dim(0) && block_row >= 0 && block_row < ids.dim(1)) {
      for (int64_t i = 0; i < ids.dim(2); ++i) {
        const int64_t id = HostTensor(ids).integer(j - 1, block_row, i);
        const int64_t element = ((j - 1) * ids.dim(1) + block_row) * ids.dim(2) + i;
        if (id < 0 || id >= op_.logits.dim(1)) break;
        const auto weight = static_cast<uint64_t>(wide_integer(op_.candidate_weights, element));
        if (weight > 0) q[id] = weight;
      }
    }
    if (!q.contains(draft(j))) q = {{draft(j), 1}};
    return q;
  }

  /// The target's weights after draft j - 1 less what `share` of them must cover of q_j.
  [[nodiscard]] std::vector<uint64_t> residual(int64_t j, double share) const {
    std::vector<uint64_t> weights = weights_of_row(op_.logits, first_ + j - 1);
    const std::map<int64_t, uint64_t> q = drafted_from(j);
    const double scale = static_cast<double>(sum_of(weights)) / static_cast<double>(sum_of_weights(q));
    for (const auto& [id, weight] : q) {
      if (id < 0 || id >= static_cast<int64_t>(weights.size())) continue;
      uint64_t& own = weights[static_cast<size_t>(id)];
      own = residual_weight(own, weight, scale, share);
    }
    return weights;
  }

  static uint64_t sum_of_weights(const std::map<int64_t, uint64_t>& q) {
    uint64_t sum = 0;
    for (const auto& [id, weight] : q) sum += weight;
    return sum;
  }

  /// p_(j-1)(X_j) / q_j(X_j)
  [[nodiscard]] double ratio(int64_t j) const {
    const std::vector<uint64_t> p = weights_of_row(op_.logits, first_ + j - 1);
    const std::map<int64_t, uint64_t> q = drafted_from(j);
    if (draft(j) < 0 || draft(j) >= static_cast<int64_t>(p.size()) || p[static_cast<size_t>(draft(j))] == 0) return 0.0;
    const double scale = static_cast<double>(sum_of(p)) / static_cast<double>(sum_of_weights(q));
    return static_cast<double>(p[static_cast<size_t>(draft(j))]) / (static_cast<double>(q.at(draft(j))) * scale);
  }

  /// h_j of block verification.
  [[nodiscard]] double holds(int64_t j, double share) const {
    if (j == num_drafts_ || share == 0.0) return share;
    const double whole = static_cast<double>(sum_of(weights_of_row(op_.logits, first_ + j)));
    const double left = share * static_cast<double>(sum_of(residual(j + 1, share))) / whole;
    return left > 0.0 ? left / (left + 1.0 - share) : 0.0;
  }

  int64_t verify(DraftSampling kind) {
    int64_t accepted = 0;
    double share = 1.0;           // c_j
    double share_accepted = 1.0;  // c
    for (int64_t j = 1; j <= num_drafts_; ++j) {
      const double u = unit_interval(random_bits(seed_, position(first_), RandomPurpose::kAccept, static_cast<uint32_t>(j)));
      if (kind == DraftSampling::kRejection) {
        if (u >= ratio(j)) break;
        accepted = j;
        continue;
      }
      share = std::min(1.0, share * ratio(j));
      if (u < holds(j, share)) {
        accepted = j;
        share_accepted = share;
      }
    }
    const HostTensor picks(op_.picks);
    if (accepted < num_drafts_) {
      const std::vector<uint64_t> left = residual(accepted + 1, share_accepted);
      const int64_t row = first_ + accepted;
      if (sum_of(left) > 0) {
        picks.set(static_cast<double>(draw_at(left, row)), row);
      }
    }
    for (int64_t j = 1; j <= accepted; ++j) picks.set(static_cast<double>(draft(j)), first_ + j - 1);
    return accepted;
  }

  [[nodiscard]] size_t draw_at(const std::vector<uint64_t>& weights, int64_t row) const {
    return foretoken::draw(weights, random_bits(seed_, position(row), RandomPurpose::kToken, 0));
  }

  const AcceptSampled& op_;
  int64_t b_;
  int64_t first_ = 0;
  int64_t num_drafts_ = 0;
  uint64_t seed_ = 0;
};

}  // namespace

void reference(const AcceptSampled& op) {
  for (int64_t b = 0; b < op.num_accepted.dim(0); ++b) Sequence(op, b).run();
}

}  // namespace foretoken
