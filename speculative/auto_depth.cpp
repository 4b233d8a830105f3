#include "speculative/auto_depth.h"

#include <algorithm>
#include <numeric>

namespace foretoken {
namespace {

using Estimate = RoundCosts::Estimate;

/// Survival that nothing is known about.
constexpr double kFirstGuess = 0.75;
constexpr double kSharedMemory = 400.0;  // rounds of one sequence
constexpr double kSharedPriorWeight = 8.0;
constexpr double kPriorWeight = 8.0;  // of what all sequences know, in one's own estimate

/// Plain steps that are measured before anything is drafted.
constexpr size_t kPlainSamples = 2;
/// What drafts must promise against plain steps: of many estimates, the greatest is rather too great.
constexpr double kWorthwhile = 1.02;
/// Rounds between probes while no draft could pay even if all held, in probe intervals.
constexpr int64_t kHopelessIntervals = 8;
/// Drafts that promise less than this, against plain steps, may be a mistake.
constexpr double kCloseGain = 1.1;
/// Plain steps of a probe: the first one pays for the change.
constexpr int64_t kProbeRounds = 2;
/// Of what a sequence saves, what it gives to the allowance until that is full again: others begin with it.
constexpr double kGivenShare = 0.5;

/// What one more draft of a sequence is expected to give.
struct Gain {
  double tokens = 0.0;
  int64_t position = 0;
  size_t sequence = 0;
};

bool drafts_any(std::span<const int64_t> depths) {
  return std::ranges::any_of(depths, [](int64_t depth) { return depth > 0; });
}

int64_t total(std::span<const int64_t> depths) { return std::accumulate(depths.begin(), depths.end(), int64_t{0}); }

/// Drafts in the order of what they give. Those of a sequence are in the order of their position, so the first n of all, those
/// beyond a depth left out, are the best use of n rows at that depth.
std::vector<Gain> ordered_gains(std::span<const std::vector<double>> survives) {
  std::vector<Gain> gains;
  for (size_t i = 0; i < survives.size(); ++i) {
    double holds = 1.0;
    for (size_t j = 0; j < survives[i].size(); ++j) {
      holds *= survives[i][j];
      gains.push_back({.tokens = holds, .position = static_cast<int64_t>(j) + 1, .sequence = i});
    }
  }
  std::ranges::stable_sort(
      gains, [](const Gain& a, const Gain& b) { return a.tokens != b.tokens ? a.tokens > b.tokens : a.position < b.position; });
  return gains;
}

}  // namespace

AutoDepth::AutoDepth(int64_t max_drafts) : max_drafts_(max_drafts), shared_survival_(kSharedMemory) {}

std::vector<double> AutoDepth::shared_survival() const {
  return shared_survival_.conditional(kFirstGuess, kSharedPriorWeight, max_drafts_);
}

std::vector<double> AutoDepth::survival(const DepthState& state, Assume assume) const {
  if (assume == Assume::kAllHold) return std::vector<double>(static_cast<size_t>(max_drafts_), 1.0);
  const std::vector<double> shared = shared_survival();
  if (assume != Assume::kFirstHolds || shared.empty()) return state.survival.conditional(shared, kPriorWeight);
  return {state.survival.hopeful_first(shared[0], kPriorWeight)};
}

std::vector<ActiveSequence> AutoDepth::affordable(Sequences sequences) const {
  const auto num_sequences = static_cast<int64_t>(sequences.size());
  std::vector<double> loss_us{0.0};  // of each sequence by depth, if none of its drafts holds
  for (int64_t depth = 1; depth <= max_drafts_; ++depth) {
    const double round_us = costs_.round_us(num_sequences, depth, num_sequences * depth);
    loss_us.push_back((round_us - costs_.plain_us(num_sequences)) / static_cast<double>(num_sequences));
  }
  std::vector<ActiveSequence> result(sequences.begin(), sequences.end());
  for (ActiveSequence& sequence : result) {
    const double funds_us = std::max(sequence.state->saved_us, 0.0) + allowance_us_;
    sequence.max_drafts = funds_us > 0.0 ? std::min(sequence.max_drafts, max_drafts_) : 0;
    while (sequence.max_drafts > 1 && loss_us[static_cast<size_t>(sequence.max_drafts)] > funds_us) --sequence.max_drafts;
  }
  return result;
}

AutoDepth::Choice AutoDepth::best_choice(Sequences sequences, Assume assume) const {
  const auto num_sequences = static_cast<int64_t>(sequences.size());
  const bool is_likely = assume == Assume::kLikely || assume == Assume::kFirstHolds;
  const Estimate estimate = is_likely ? Estimate::kLikely : Estimate::kLowest;
  // Beyond twice what was measured, estimates say little.
  const int64_t deepest = std::min(std::max<int64_t>(1, 2 * costs_.deepest(num_sequences)), max_drafts_);
  std::vector<std::vector<double>> survives;  // by sequence, as far as it may draft
  for (const ActiveSequence& sequence : sequences) {
    survives.push_back(survival(*sequence.state, assume));
    const auto limit = static_cast<size_t>(std::min(sequence.max_drafts, deepest));
    survives.back().resize(std::min(survives.back().size(), limit));
  }
  const std::vector<Gain> gains = ordered_gains(survives);
  std::vector<double> rest_us;  // by number of drafts
  for (size_t n = 0; n <= gains.size(); ++n) {
    rest_us.push_back(costs_.rest_us(num_sequences, static_cast<int64_t>(n), estimate));
  }

  const double plain_rate = static_cast<double>(num_sequences) / rest_us[0];
  double best_rate = plain_rate * (is_likely ? kWorthwhile : 1.0);
  int64_t best_depth = 0;
  size_t best_count = 0;
  for (int64_t depth = 1; depth <= deepest; ++depth) {
    const double draft_us = costs_.draft_us(num_sequences, depth, estimate);
    auto tokens = static_cast<double>(num_sequences);
    size_t count = 0;
    for (const Gain& gain : gains) {
      if (gain.position > depth) continue;
      tokens += gain.tokens;
      ++count;
      const double rate = tokens / (draft_us + rest_us[count]);
      if (rate <= best_rate) continue;
      best_rate = rate;
      best_depth = depth;
      best_count = count;
    }
  }
  std::vector<int64_t> depths(sequences.size(), 0);
  for (size_t i = 0; best_count > 0; ++i) {
    if (gains[i].position > best_depth) continue;
    ++depths[gains[i].sequence];
    --best_count;
  }
  return {.depths = std::move(depths), .gain = best_rate / plain_rate};
}

std::vector<int64_t> AutoDepth::probe(Sequences sequences, Sequences allowed, const Choice& best) {
  const auto num_sequences = static_cast<int64_t>(sequences.size());
  Choice hopeful = best_choice(allowed, Assume::kLowestCost);
  if (drafts_any(hopeful.depths) && !costs_.is_proven(num_sequences, total(hopeful.depths))) {
    rounds_to_probe_ = kSurveyInterval;
    return std::move(hopeful.depths);
  }
  const bool drafts = drafts_any(best.depths);
  const bool is_hopeless = !drafts_any(best_choice(sequences, Assume::kAllHold).depths);
  if (drafts) {
    probe_interval_ = kMinProbeInterval;
    rounds_to_probe_ = best.gain < kCloseGain ? kCloseProbeInterval : kMaxProbeInterval;
  } else {
    rounds_to_probe_ = is_hopeless ? kHopelessIntervals * kMaxProbeInterval : probe_interval_;
    probe_interval_ = std::min(2 * probe_interval_, kMaxProbeInterval);
  }
  probes_plain_ = drafts && !probes_plain_;
  if (probes_plain_) decide_plain(num_sequences, kProbeRounds);
  std::vector<int64_t> depths(sequences.size(), 0);
  for (size_t i = 0; i < depths.size() && !probes_plain_; ++i) {
    depths[i] = std::min(best.depths[i] + 1, allowed[i].max_drafts);
    sequences[i].state->is_probing = best.depths[i] == 0 && !is_hopeless;
  }
  return depths;
}

void AutoDepth::decide_plain(int64_t num_sequences, int64_t num_rounds) {
  num_plain_ = num_sequences;
  rounds_to_decide_ = num_rounds;
}

std::vector<int64_t> AutoDepth::depths(Sequences sequences) {
  check_sequences(sequences);
  const auto num_sequences = static_cast<int64_t>(sequences.size());
  if (costs_.num_plain_samples(num_sequences) < kPlainSamples) return std::vector<int64_t>(sequences.size(), 0);
  if (!has_allowance_) allowance_us_ = kAllowance * costs_.plain_us(num_sequences);
  has_allowance_ = true;

  const bool all_known = std::ranges::all_of(sequences, [](const ActiveSequence& sequence) { return sequence.state->is_known; });
  const bool is_plain = num_plain_ == num_sequences && all_known;
  if (--rounds_to_probe_ > 0 && is_plain && --rounds_to_decide_ > 0) return std::vector<int64_t>(sequences.size(), 0);
  for (const ActiveSequence& sequence : sequences) sequence.state->is_known = true;
  plain_stretch_ = is_plain ? std::min(2 * plain_stretch_, kMaxPlainStretch) : kMinPlainStretch;
  num_plain_ = 0;
  const std::vector<ActiveSequence> allowed = affordable(sequences);
  if (std::ranges::all_of(allowed, [](const ActiveSequence& sequence) { return sequence.max_drafts == 0; })) {
    decide_plain(num_sequences, plain_stretch_);
    rounds_to_probe_ = std::max(rounds_to_probe_, plain_stretch_);
    return std::vector<int64_t>(sequences.size(), 0);
  }
  Choice best = best_choice(allowed, Assume::kLikely);
  if (rounds_to_probe_ <= 0) return probe(sequences, allowed, best);
  if (!drafts_any(best.depths)) best = best_choice(allowed, Assume::kFirstHolds);
  std::vector<int64_t>& depths = best.depths;
  for (size_t i = 0; i < depths.size(); ++i) {
    if (allowed[i].state->is_probing) depths[i] = std::min(std::max<int64_t>(depths[i], 1), allowed[i].max_drafts);
  }
  if (!drafts_any(depths)) decide_plain(num_sequences, plain_stretch_);
  return std::move(depths);
}

int64_t AutoDepth::num_plain_rounds_ahead() const {
  return num_plain_ == 0 ? 0 : std::max<int64_t>(std::min(rounds_to_decide_, rounds_to_probe_) - 1, 0);
}

void AutoDepth::observe(const RoundReport& report) {
  check_report(report);
  const auto num_sequences = static_cast<int64_t>(report.sequences.size());
  int64_t depth = 0;
  int64_t num_drafts = 0;
  for (const SequenceOutcome& outcome : report.sequences) {
    depth = std::max(depth, outcome.num_drafted);
    num_drafts += outcome.num_drafted;
  }
  const double round_us = report.time ? costs_.observe(num_sequences, depth, num_drafts, *report.time)
                                      : costs_.round_us(num_sequences, depth, num_drafts);
  settle(report, round_us, num_drafts);
  for (const SequenceOutcome& outcome : report.sequences) {
    if (outcome.num_drafted > 0) learn(outcome);
  }
}

/// Accounts for a round: its tokens are worth the time that plain steps take for them, and what it took beyond a plain step was
/// for those that drafted. `round_us` is without what disturbs a round, and would have disturbed plain steps too.
void AutoDepth::settle(const RoundReport& report, double round_us, int64_t num_drafts) {
  const double plain_us = costs_.plain_us(static_cast<int64_t>(report.sequences.size()));
  const double token_us = plain_us / static_cast<double>(report.sequences.size());
  const double draft_us = num_drafts == 0 ? 0.0 : (round_us - plain_us) / static_cast<double>(num_drafts);
  double worth_us = plain_us;
  for (const SequenceOutcome& outcome : report.sequences) {
    if (outcome.num_drafted == 0) continue;
    double& saved_us = outcome.state->saved_us;
    const double won_us = static_cast<double>(outcome.num_accepted) * token_us;
    const double before_us = saved_us;
    saved_us = std::min(saved_us + won_us - draft_us * static_cast<double>(outcome.num_drafted), kMaxSavings * token_us);
    allowance_us_ += std::min(saved_us, 0.0) - std::min(before_us, 0.0);
    const double given_us = std::min(kGivenShare * std::max(saved_us - std::max(before_us, 0.0), 0.0),
                                     std::max(kMaxSavings * plain_us - allowance_us_, 0.0));
    saved_us -= given_us;
    allowance_us_ += given_us;
    worth_us += won_us;
  }
  const double full_us = std::max(allowance_us_, kAllowance * plain_us);
  allowance_us_ = std::min(allowance_us_ + kAllowanceShare * worth_us, full_us);
}

void AutoDepth::learn(const SequenceOutcome& outcome) {
  DepthState& state = *outcome.state;
  state.is_probing = state.is_probing && outcome.num_accepted == outcome.num_drafted;
  const std::vector<double> shared = shared_survival();
  const std::vector<double> own = state.survival.conditional(shared, kPriorWeight);
  shared_survival_.observe(outcome.num_drafted, outcome.num_accepted, shared);
  if (!state.survival.observe(outcome.num_drafted, outcome.num_accepted, own)) return;
  probe_interval_ = kMinProbeInterval;
  rounds_to_probe_ = std::min(rounds_to_probe_, kMinProbeInterval);
}

void AutoDepth::learn_cost(int64_t num_sequences, int64_t num_drafts, const RoundTime& time) {
  check_cost(num_sequences, num_drafts, time);
  costs_.learn(num_sequences, num_drafts, num_sequences * num_drafts, time);
}

}  // namespace foretoken
