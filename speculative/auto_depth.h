// The depth policy `auto`: as many drafts as are worth their time.
//
// Expected tokens of a round with depths d_i of B sequences: B + sum_i sum_{j <= d_i} S_i(j), where S_i(j), the chance that draft
// j of sequence i counts, is the product of its survival probabilities up to j. Its time is learned (round_costs.h). Depths are
// those of the greatest quotient, 0 for all included; with one sequence that is an ordinary maximum over K.
//
// What finding out may cost. `saved_us` of a sequence is the time that plain decoding would have taken for its tokens less what
// they took; its share of a round is that of a plain step, and of what the round took beyond one, that of its drafts. A sequence
// may draft as deep as its savings (kMaxSavings plain steps at most) and the allowance pay for if no draft holds. The allowance
// is a stock of kAllowance plain steps, filled at the rate of kAllowanceShare of all time and by a share of what is saved, that
// sequences without savings draw from, and pay back before they save. So at any time, for one sequence and for all together,
//   time <= (1 + kAllowanceShare) * time of plain decoding + kAllowance plain steps + one round,
// at the pace of the rounds before: what slows all down slows plain steps too, and says nothing against drafts.
//
// What the choice does not show is found out in probes. While a cost that was not measured could change the choice, every
// kSurveyInterval rounds one is measured; an engine measures all before its first text. While sequences draft, one draft more
// for every sequence takes turns with a plain step every kMaxProbeInterval rounds, every kCloseProbeInterval where drafts promise
// little: it costs little there, and the choice may be wrong. While they do not, the rounds between two probes with a draft
// double from kMinProbeInterval to kMaxProbeInterval, and start over when a text changes. A first draft that a probe gave to a
// sequence goes on for as long as its drafts hold.
#pragma once

#include "speculative/depth_policy.h"
#include "speculative/round_costs.h"

namespace foretoken {

class AutoDepth final : public DepthPolicy {
 public:
  static constexpr double kAllowance = 3.0;
  static constexpr double kAllowanceShare = 0.005;
  static constexpr double kMaxSavings = 32.0;
  static constexpr int64_t kMinProbeInterval = 8;
  static constexpr int64_t kMaxProbeInterval = 128;
  static constexpr int64_t kCloseProbeInterval = 32;
  static constexpr int64_t kSurveyInterval = 2;
  /// Plain steps that one decision is good for: twice as many every time that it is the same, since nothing is learned of drafts
  /// meanwhile, and small models take no longer for a step than for some decisions.
  static constexpr int64_t kMinPlainStretch = 4;
  static constexpr int64_t kMaxPlainStretch = 32;

  /// `max_drafts`: most of a round.
  explicit AutoDepth(int64_t max_drafts);

  [[nodiscard]] int64_t max_drafts() const override { return max_drafts_; }
  [[nodiscard]] std::vector<int64_t> depths(std::span<const ActiveSequence> sequences) override;
  [[nodiscard]] int64_t num_plain_rounds_ahead() const override;
  void observe(const RoundReport& report) override;
  void learn_cost(int64_t num_sequences, int64_t num_drafts, const RoundTime& time) override;

 private:
  using Sequences = std::span<const ActiveSequence>;
  struct Choice {
    std::vector<int64_t> depths;
    double gain = 1.0;  // rate against that of plain steps
  };
  /// What a choice of depths is made under.
  enum class Assume : uint8_t {
    kLikely,
    kFirstHolds,  // likely costs, one draft at most, which holds as often as one may still hope
    kLowestCost,  // likely survival, and costs as low as the measurements leave possible
    kAllHold      // such costs, and no draft ever fails
  };

  [[nodiscard]] std::vector<double> shared_survival() const;
  [[nodiscard]] std::vector<double> survival(const DepthState& state, Assume assume) const;
  /// The sequences, each with as many drafts at most as its savings and the allowance pay for if none of them holds.
  [[nodiscard]] std::vector<ActiveSequence> affordable(Sequences sequences) const;
  /// The depths of the greatest rate.
  [[nodiscard]] Choice best_choice(Sequences sequences, Assume assume) const;
  /// The depths of a probe instead of `best`; `allowed`: the affordable sequences.
  [[nodiscard]] std::vector<int64_t> probe(Sequences sequences, Sequences allowed, const Choice& best);
  /// Plain steps for `num_rounds` rounds, unless another sequence comes.
  void decide_plain(int64_t num_sequences, int64_t num_rounds);
  void settle(const RoundReport& report, double round_us, int64_t num_drafts);
  void learn(const SequenceOutcome& outcome);

  int64_t max_drafts_;
  SurvivalEstimate shared_survival_;  // of all sequences: what a new one starts from
  RoundCosts costs_;
  double allowance_us_ = 0.0;
  bool has_allowance_ = false;
  int64_t probe_interval_ = kMinProbeInterval;
  int64_t rounds_to_probe_ = kSurveyInterval;
  bool probes_plain_ = false;  // the last probe was a plain step
  int64_t num_plain_ = 0;      // sequences that the last decision gave plain steps; 0: it was another one
  int64_t plain_stretch_ = kMinPlainStretch;
  int64_t rounds_to_decide_ = 0;
};

}  // namespace foretoken
