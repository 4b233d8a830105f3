// Rounds on a device that is nothing but a table of costs, with drafts that are nothing but chances.
#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "speculative/depth_policy.h"

namespace foretoken {

struct SimulatedCosts {
  std::string name;
  std::function<double(int64_t depth)> draft_us;
  std::function<double(int64_t rows)> verify_us;  // of all sequences together
};

/// Chance that draft j (1, 2, ...) holds given that those before it held.
using Chances = std::function<double(int64_t position)>;

struct SimulatedRun {
  int64_t tokens = 0;
  int64_t rounds = 0;
  double us = 0.0;        // without noise
  double plain_us = 0.0;  // of the same tokens by plain steps of as many sequences
  std::vector<int64_t> rounds_by_depth;

  [[nodiscard]] double tokens_per_us() const { return static_cast<double>(tokens) / us; }
  [[nodiscard]] double speedup() const { return plain_us / us; }
};

class SimulatedDevice {
 public:
  SimulatedDevice(SimulatedCosts costs, uint64_t seed) : costs_(std::move(costs)), random_(seed) {}

  /// Every measured time becomes longer or shorter by up to this share of it, and one in fifty four times as long.
  void add_noise(double share) { noise_ = share; }

  /// From now on everything takes `factor` times as long as its costs say.
  void slow_down(double factor) { slowness_ = factor; }

  /// One round of `states.size()` sequences, chances[i] those of sequence i; reports it to the policy and adds it to `run`.
  void round(DepthPolicy& policy, std::vector<DepthState>& states, const std::vector<Chances>& chances, SimulatedRun& run);

  /// Rounds of one sequence until it has so many tokens.
  SimulatedRun generate(DepthPolicy& policy, DepthState& state, const Chances& chances, int64_t tokens);

  [[nodiscard]] RoundTime time(int64_t num_sequences, int64_t depth, int64_t num_drafts) const;

 private:
  [[nodiscard]] double chance() { return static_cast<double>(random_() >> 11) * 0x1.0p-53; }
  [[nodiscard]] double disturbed(double us);

  SimulatedCosts costs_;
  std::mt19937_64 random_;
  double slowness_ = 1.0;
  double noise_ = 0.0;
};

/// Expected tokens per microsecond of one sequence at a fixed depth, and at the best one of 0 .. max_drafts.
double expected_rate(const SimulatedCosts& costs, const Chances& chances, int64_t depth);
double best_rate(const SimulatedCosts& costs, const Chances& chances, int64_t max_drafts);

}  // namespace foretoken
