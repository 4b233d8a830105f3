// The policy `auto` against devices whose costs are known: near the best fixed depth, never much slower than plain decoding.
#include "speculative/auto_depth.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "simulated_device.h"

namespace foretoken {
namespace {

constexpr int64_t kMaxDrafts = 15;
constexpr double kStepUs = 1000.0;

const std::vector<SimulatedCosts>& all_costs() {
  static const std::vector<SimulatedCosts> costs{
      {"cheap verify", [](int64_t k) { return 30.0 + 110.0 * static_cast<double>(k); },
       [](int64_t rows) { return kStepUs + 20.0 * static_cast<double>(rows - 1); }},
      {"expensive verify", [](int64_t k) { return 80.0 * static_cast<double>(k); },
       [](int64_t rows) { return kStepUs + 350.0 * static_cast<double>(rows - 1); }},
      {"a draft like a step", [](int64_t k) { return kStepUs * static_cast<double>(k); },
       [](int64_t rows) { return kStepUs + 20.0 * static_cast<double>(rows - 1); }},
      {"a step for each row", [](int64_t k) { return 30.0 * static_cast<double>(k); },
       [](int64_t rows) { return kStepUs * static_cast<double>(rows); }},
      {"experts", [](int64_t k) { return 100.0 * static_cast<double>(k); },
       [](int64_t rows) { return kStepUs * (1.9 - 0.9 * std::pow(0.7, static_cast<double>(rows - 1))); }},
      {"tiles of eight rows", [](int64_t k) { return 60.0 * static_cast<double>(k); },
       [](int64_t rows) { return rows <= 8 ? kStepUs : 1.9 * kStepUs; }}};
  return costs;
}

struct Pattern {
  std::string name;
  Chances chances;
};

const std::vector<Pattern>& all_patterns() {
  static const std::vector<Pattern> patterns{
      {"repetitive", [](int64_t) { return 0.97; }},
      {"ordinary", [](int64_t j) { return std::max(0.4, 0.8 - 0.07 * static_cast<double>(j)); }},
      {"random", [](int64_t) { return 0.04; }}};
  return patterns;
}

/// What an engine measures before its first request.
void measure_costs(DepthPolicy& policy, const SimulatedDevice& device) {
  for (int repeat = 0; repeat < 2; ++repeat) {
    for (int64_t depth = 0; depth <= kMaxDrafts; ++depth) policy.learn_cost(1, depth, device.time(1, depth, depth));
  }
}

/// Mean share of the best fixed depth's rate, and the least speedup against plain decoding, of runs with different drafts.
struct Score {
  double share = 0.0;
  double worst_speedup = 1e9;
};

Score score(const SimulatedCosts& costs, const Pattern& pattern, int64_t tokens, double noise, bool is_measured) {
  constexpr uint64_t kRuns = 8;
  Score score;
  for (uint64_t seed = 0; seed < kRuns; ++seed) {
    SimulatedDevice device(costs, seed);
    device.add_noise(noise);
    AutoDepth policy(kMaxDrafts);
    if (is_measured) measure_costs(policy, device);
    DepthState state;
    const SimulatedRun run = device.generate(policy, state, pattern.chances, tokens);
    score.share += run.tokens_per_us() / best_rate(costs, pattern.chances, kMaxDrafts) / static_cast<double>(kRuns);
    score.worst_speedup = std::min(score.worst_speedup, run.speedup());
  }
  return score;
}

TEST(AutoDepth, IsNearTheBestFixedDepthWithMeasuredCosts) {
  for (const SimulatedCosts& costs : all_costs()) {
    for (const Pattern& pattern : all_patterns()) {
      const Score got = score(costs, pattern, 4000, 0.0, true);
      EXPECT_GE(got.share, 0.97) << costs.name << ", " << pattern.name;
      EXPECT_GE(got.worst_speedup, 0.98) << costs.name << ", " << pattern.name;
    }
  }
}

TEST(AutoDepth, FindsCostsOutByItself) {
  for (const SimulatedCosts& costs : all_costs()) {
    for (const Pattern& pattern : all_patterns()) {
      const Score got = score(costs, pattern, 6000, 0.0, false);
      EXPECT_GE(got.share, 0.97) << costs.name << ", " << pattern.name;
      EXPECT_GE(got.worst_speedup, 0.98) << costs.name << ", " << pattern.name;
    }
  }
}

TEST(AutoDepth, LosesLittleInAShortText) {
  for (const SimulatedCosts& costs : all_costs()) {
    for (const Pattern& pattern : all_patterns()) {
      EXPECT_GE(score(costs, pattern, 300, 0.0, true).worst_speedup, 0.98) << costs.name << ", " << pattern.name;
      EXPECT_GE(score(costs, pattern, 300, 0.0, false).worst_speedup, 0.975) << costs.name << ", " << pattern.name;
    }
  }
}

TEST(AutoDepth, ToleratesNoise) {
  for (const SimulatedCosts& costs : all_costs()) {
    for (const Pattern& pattern : all_patterns()) {
      const Score got = score(costs, pattern, 6000, 0.1, true);
      EXPECT_GE(got.share, 0.95) << costs.name << ", " << pattern.name;
      EXPECT_GE(got.worst_speedup, 0.97) << costs.name << ", " << pattern.name;
      // Where costs are those of disturbed rounds from the start, a choice between equals may stay wrong for long.
      const Score unmeasured = score(costs, pattern, 6000, 0.1, false);
      EXPECT_GE(unmeasured.share, 0.95) << costs.name << ", " << pattern.name;
      EXPECT_GE(unmeasured.worst_speedup, 0.94) << costs.name << ", " << pattern.name;
    }
  }
}

// Plain steps would be disturbed just as well, so what a disturbed round took says nothing against its drafts.
TEST(AutoDepth, DraftsOnWhenRoundsAreDisturbed) {
  const SimulatedCosts small{"small model", [](int64_t k) { return 5.0 + 22.0 * static_cast<double>(k); },
                             [](int64_t rows) { return rows == 1 ? 150.0 : 135.0 + 30.0 * static_cast<double>(rows); }};
  const Score got = score(small, {"golden", [](int64_t) { return 0.76; }}, 1500, 0.4, true);
  EXPECT_GE(got.share, 0.94);
  EXPECT_GE(got.worst_speedup, 1.15);
}

// Long texts between short ones, or a device that others use: what was measured of depths that are not in use stays comparable.
TEST(AutoDepth, KeepsItsDepthsWhenAllRoundsBecomeLonger) {
  const SimulatedCosts small{"small model", [](int64_t k) { return 45.0 * static_cast<double>(k); },
                             [](int64_t rows) { return rows == 1 ? 140.0 : 170.0 + 80.0 * static_cast<double>(rows - 2); }};
  SimulatedDevice device(small, 7);
  AutoDepth policy(kMaxDrafts);
  measure_costs(policy, device);
  double speedup = 0.0;
  for (int i = 0; i < 20; ++i) {
    device.slow_down(i % 2 == 0 ? 1.0 : 3.0);
    DepthState state;
    speedup += device
                   .generate(
                       policy, state, [](int64_t) { return 0.5; }, 200)
                   .speedup() /
               20.0;
  }
  EXPECT_GE(speedup, 0.97);
}

TEST(AutoDepth, ShortTextsLiveOnWhatOthersSaved) {
  SimulatedDevice device(all_costs().front(), 6);
  AutoDepth policy(kMaxDrafts);
  measure_costs(policy, device);
  const Chances& ordinary = all_patterns()[1].chances;
  double rate = 0.0;
  for (int i = 0; i < 100; ++i) {
    DepthState state;
    rate += device.generate(policy, state, ordinary, 20).tokens_per_us() / 100.0;
  }
  EXPECT_GE(rate / best_rate(all_costs().front(), ordinary, kMaxDrafts), 0.95);
}

TEST(AutoDepth, LeavesAndReturnsWhenTheTextChanges) {
  const SimulatedCosts& costs = all_costs().front();
  SimulatedDevice device(costs, 5);
  AutoDepth policy(kMaxDrafts);
  measure_costs(policy, device);
  DepthState state;
  const Chances& repetitive = all_patterns()[0].chances;
  const Chances& random = all_patterns()[2].chances;
  (void)device.generate(policy, state, repetitive, 1000);
  // What was saved may be lost again, but no more than that.
  const SimulatedRun left = device.generate(policy, state, random, 400);
  EXPECT_GE(left.us - left.plain_us, 0.0);
  EXPECT_LE(left.us - left.plain_us, 12.0 * kStepUs);
  EXPECT_GE(device.generate(policy, state, random, 600).speedup(), 0.985);
  const SimulatedRun returned = device.generate(policy, state, repetitive, 3000);
  EXPECT_GE(returned.tokens_per_us() / best_rate(costs, repetitive, kMaxDrafts), 0.9);
}

// Drafts that hold just often enough to be believed in, whatever they cost.
TEST(AutoDepth, NeverLosesMoreThanItMay) {
  for (const SimulatedCosts& costs : all_costs()) {
    for (const int64_t period : {2, 3, 5, 9, 17, 40, 100}) {
      SimulatedDevice device(costs, 1);
      AutoDepth policy(kMaxDrafts);
      std::vector<DepthState> states(1);
      SimulatedRun run;
      double worst_us = 0.0;
      for (int64_t i = 0; i < 4000; ++i) {
        const bool holds = i / period % 2 == 0;
        device.round(policy, states, {[holds](int64_t) { return holds ? 1.0 : 0.0; }}, run);
        const double allowed_us = AutoDepth::kAllowanceShare * run.plain_us + AutoDepth::kAllowance * kStepUs;
        worst_us = std::max(worst_us, run.us - run.plain_us - allowed_us);
      }
      // One round beyond it, and the first drafts, whose cost nothing was known about.
      EXPECT_LE(worst_us, 3.0 * kStepUs) << costs.name << ", period " << period;
    }
  }
}

TEST(AutoDepth, DoesNotProbeWhatCannotPay) {
  SimulatedDevice device(all_costs()[3], 2);
  AutoDepth policy(kMaxDrafts);
  measure_costs(policy, device);
  DepthState state;
  const SimulatedRun run = device.generate(
      policy, state, [](int64_t) { return 1.0; }, 3000);
  EXPECT_GE(run.rounds_by_depth[0], run.rounds - 4);
}

TEST(AutoDepth, ProbesLessAndLessOften) {
  SimulatedDevice device(all_costs()[1], 2);
  AutoDepth policy(kMaxDrafts);
  measure_costs(policy, device);
  DepthState state;
  const auto probes = [&] {
    const SimulatedRun run = device.generate(
        policy, state, [](int64_t) { return 0.0; }, 256);
    return run.rounds - run.rounds_by_depth[0];
  };
  EXPECT_GE(probes(), 3);
  const int64_t later = probes();
  EXPECT_GE(later, 1);
  EXPECT_LE(later, 3);
}

/// A drafter may rest for as long, so nothing may be drafted then.
TEST(AutoDepth, KnowsOfRoundsWithoutDrafts) {
  for (const Pattern& pattern : all_patterns()) {
    SimulatedDevice device(all_costs()[1], 8);
    AutoDepth policy(kMaxDrafts);
    measure_costs(policy, device);
    std::vector<DepthState> states(1);
    SimulatedRun run;
    int64_t sure_until = 0;
    int64_t longest = 0;
    for (int64_t round = 0; round < 2000; ++round) {
      const int64_t drafting = run.rounds - (run.rounds == 0 ? 0 : run.rounds_by_depth[0]);
      device.round(policy, states, {pattern.chances}, run);
      if (round <= sure_until && round > 0) {
        EXPECT_EQ(run.rounds - run.rounds_by_depth[0], drafting) << pattern.name << ", round " << round;
      }
      const int64_t ahead = policy.num_plain_rounds_ahead();
      if (ahead > 0) sure_until = round + ahead;
      longest = std::max(longest, ahead);
    }
    EXPECT_EQ(longest >= AutoDepth::kMaxPlainStretch - 1, pattern.name == "random") << pattern.name;
  }
}

TEST(AutoDepth, DecidesAnewWhenASequenceJoins) {
  SimulatedDevice device(all_costs()[1], 8);
  AutoDepth policy(kMaxDrafts);
  measure_costs(policy, device);
  DepthState first;
  const std::vector<ActiveSequence> active{{.state = &first, .max_drafts = kMaxDrafts}};
  std::vector<DepthState> states(1);
  SimulatedRun run;
  while (policy.num_plain_rounds_ahead() < AutoDepth::kMaxPlainStretch - 1) {
    device.round(policy, states, {all_patterns()[2].chances}, run);
    ASSERT_LT(run.rounds, 2000);
  }
  (void)policy.depths(active);
  EXPECT_LT(policy.num_plain_rounds_ahead(), AutoDepth::kMinPlainStretch);
}

/// The first plain steps took four times as long as they do, so drafts seemed to be worth their time.
TEST(AutoDepth, FindsOutThatPlainStepsAreFaster) {
  SimulatedDevice device(all_costs()[1], 3);
  AutoDepth policy(kMaxDrafts);
  const RoundTime plain = device.time(1, 0, 0);
  for (int i = 0; i < 2; ++i) policy.learn_cost(1, 0, {.verify_us = 4.0 * plain.verify_us});
  for (int i = 0; i < 2; ++i) {
    for (int64_t depth = 1; depth <= kMaxDrafts; ++depth) policy.learn_cost(1, depth, device.time(1, depth, depth));
  }
  DepthState state;
  (void)device.generate(policy, state, all_patterns()[2].chances, 1500);
  EXPECT_GE(device.generate(policy, state, all_patterns()[2].chances, 1000).speedup(), 0.98);
}

TEST(AutoDepth, GivesEachSequenceItsOwnDepth) {
  // Rows are dear and draft passes are not, so a row goes where it holds.
  SimulatedDevice device({"rows", [](int64_t k) { return 20.0 * static_cast<double>(k); },
                          [](int64_t rows) { return kStepUs + 100.0 * static_cast<double>(rows - 4); }},
                         3);
  AutoDepth policy(kMaxDrafts);
  std::vector<DepthState> states(4);
  const std::vector<Chances> chances{all_patterns()[0].chances, all_patterns()[2].chances, all_patterns()[1].chances,
                                     all_patterns()[2].chances};
  SimulatedRun run;
  for (int i = 0; i < 400; ++i) device.round(policy, states, chances, run);
  std::vector<ActiveSequence> active;
  for (DepthState& state : states) active.push_back({.state = &state, .max_drafts = kMaxDrafts});
  std::vector<double> mean(4, 0.0);
  for (int i = 0; i < 50; ++i) {
    const std::vector<int64_t> depths = policy.depths(active);
    for (size_t s = 0; s < 4; ++s) mean[s] += static_cast<double>(depths[s]) / 50.0;
    device.round(policy, states, chances, run);
  }
  EXPECT_GT(mean[0], mean[2]);
  EXPECT_GT(mean[2], mean[1]);
  EXPECT_LT(mean[1], 0.3);
  EXPECT_LT(mean[3], 0.3);
  EXPECT_GT(run.speedup(), 1.3);
}

TEST(AutoDepth, ANewSequenceStartsFromWhatTheOthersShowed) {
  SimulatedDevice device(all_costs().front(), 4);
  AutoDepth policy(kMaxDrafts);
  measure_costs(policy, device);
  DepthState first;
  (void)device.generate(policy, first, all_patterns()[0].chances, 1000);
  DepthState second;
  const std::vector<ActiveSequence> active{{.state = &second, .max_drafts = kMaxDrafts}};
  EXPECT_GE(policy.depths(active)[0], 8);
}

TEST(AutoDepth, KeepsToTheLimitsOfSequences) {
  SimulatedDevice device(all_costs().front(), 4);
  AutoDepth policy(kMaxDrafts);
  measure_costs(policy, device);
  DepthState state;
  (void)device.generate(policy, state, all_patterns()[0].chances, 500);
  for (int i = 0; i < 200; ++i) {
    const std::vector<ActiveSequence> active{{.state = &state, .max_drafts = i % 3}};
    EXPECT_LE(policy.depths(active)[0], i % 3);
  }
}

TEST(AutoDepth, LearnsAcceptanceWithoutTimes) {
  AutoDepth policy(kMaxDrafts);
  SimulatedDevice device(all_costs().front(), 4);
  measure_costs(policy, device);
  DepthState state;
  const std::vector<ActiveSequence> active{{.state = &state, .max_drafts = kMaxDrafts}};
  for (int i = 0; i < 30; ++i) {
    const std::vector<SequenceOutcome> outcome{{.state = &state, .num_drafted = 8, .num_accepted = 8}};
    policy.observe({.sequences = outcome});
  }
  DepthState doubted;
  for (int i = 0; i < 30; ++i) {
    const std::vector<SequenceOutcome> outcome{{.state = &doubted, .num_drafted = 8, .num_accepted = 0}};
    policy.observe({.sequences = outcome});
  }
  const std::vector<ActiveSequence> other{{.state = &doubted, .max_drafts = kMaxDrafts}};
  int64_t deepest = 0;
  for (int i = 0; i < 4; ++i) deepest = std::max(deepest, policy.depths(active)[0]);  // one of them is a plain probe
  EXPECT_GE(deepest, 3);
  for (int i = 0; i < 4; ++i) EXPECT_LE(policy.depths(other)[0], 1);
}

TEST(AutoDepth, DecidesTheSameForTheSameInputs) {
  const auto run = [] {
    SimulatedDevice device(all_costs()[4], 9);
    device.add_noise(0.1);
    AutoDepth policy(kMaxDrafts);
    DepthState state;
    return device.generate(policy, state, all_patterns()[1].chances, 800);
  };
  const SimulatedRun a = run();
  const SimulatedRun b = run();
  EXPECT_EQ(a.rounds_by_depth, b.rounds_by_depth);
  EXPECT_EQ(a.us, b.us);
}

TEST(AutoDepth, NeverDraftsWithoutDraftsToGive) {
  AutoDepth policy(0);
  SimulatedDevice device(all_costs().front(), 1);
  DepthState state;
  const SimulatedRun run = device.generate(
      policy, state, [](int64_t) { return 1.0; }, 300);
  EXPECT_EQ(run.rounds_by_depth[0], 300);
}

}  // namespace
}  // namespace foretoken
