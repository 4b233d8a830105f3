#include "simulated_device.h"

#include <algorithm>

namespace foretoken {

double SimulatedDevice::disturbed(double us) {
  if (noise_ == 0.0) return us;
  const double factor = 1.0 + noise_ * (2.0 * chance() - 1.0);
  return us * (chance() < 0.02 ? 4.0 * factor : factor);
}

RoundTime SimulatedDevice::time(int64_t num_sequences, int64_t depth, int64_t num_drafts) const {
  return {.draft_us = depth == 0 ? 0.0 : slowness_ * costs_.draft_us(depth),
          .verify_us = slowness_ * costs_.verify_us(num_sequences + num_drafts)};
}

void SimulatedDevice::round(DepthPolicy& policy, std::vector<DepthState>& states, const std::vector<Chances>& chances,
                            SimulatedRun& run) {
  std::vector<ActiveSequence> active;
  for (DepthState& state : states) active.push_back({.state = &state, .max_drafts = policy.max_drafts()});
  const std::vector<int64_t> depths = policy.depths(active);

  std::vector<SequenceOutcome> outcomes;
  int64_t num_drafts = 0;
  int64_t tokens = 0;
  for (size_t i = 0; i < states.size(); ++i) {
    int64_t accepted = 0;
    while (accepted < depths[i] && chance() < chances[i](accepted + 1)) ++accepted;
    outcomes.push_back({.state = &states[i], .num_drafted = depths[i], .num_accepted = accepted});
    num_drafts += depths[i];
    tokens += 1 + accepted;
  }
  const auto num_sequences = static_cast<int64_t>(states.size());
  const int64_t depth = *std::ranges::max_element(depths);
  const RoundTime exact = time(num_sequences, depth, num_drafts);
  const RoundTime measured{.draft_us = disturbed(exact.draft_us), .verify_us = disturbed(exact.verify_us)};
  policy.observe({.sequences = outcomes, .time = measured});

  run.tokens += tokens;
  ++run.rounds;
  run.us += exact.total_us();
  run.plain_us += static_cast<double>(tokens) * time(num_sequences, 0, 0).total_us() / static_cast<double>(num_sequences);
  run.rounds_by_depth.resize(static_cast<size_t>(policy.max_drafts() + 1));
  ++run.rounds_by_depth[static_cast<size_t>(depth)];
}

SimulatedRun SimulatedDevice::generate(DepthPolicy& policy, DepthState& state, const Chances& chances, int64_t tokens) {
  SimulatedRun run;
  std::vector<DepthState> states{state};
  while (run.tokens < tokens) round(policy, states, {chances}, run);
  state = states.front();
  return run;
}

double expected_rate(const SimulatedCosts& costs, const Chances& chances, int64_t depth) {
  double tokens = 1.0;
  double holds = 1.0;
  for (int64_t j = 1; j <= depth; ++j) tokens += holds *= chances(j);
  return tokens / ((depth == 0 ? 0.0 : costs.draft_us(depth)) + costs.verify_us(1 + depth));
}

double best_rate(const SimulatedCosts& costs, const Chances& chances, int64_t max_drafts) {
  double best = 0.0;
  for (int64_t depth = 0; depth <= max_drafts; ++depth) best = std::max(best, expected_rate(costs, chances, depth));
  return best;
}

}  // namespace foretoken
