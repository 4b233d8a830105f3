// How likely drafts are to hold, learned from how many of each round's did.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace foretoken {

/// For each position j: the probability that draft j holds given that those before it held. Rounds of the past count less with
/// every new one. A streak that the estimate calls next to impossible (first drafts that all fail, or drafts that all hold) says
/// that the text has changed: what speaks against it then counts next to nothing, and the prior, which did not foresee it, less
/// than before.
class SurvivalEstimate {
 public:
  /// `memory`: how many rounds count in the long run.
  explicit SurvivalEstimate(double memory);

  /// Takes in a round in which the first `num_accepted` of `num_drafted` drafts held; at least one was drafted. `expected` are
  /// the probabilities that the caller would have given for it, one per position and at least `num_drafted`. Returns whether
  /// a text has changed.
  bool observe(int64_t num_drafted, int64_t num_accepted, std::span<const double> expected);

  /// Probabilities of `prior.size()` positions. `prior` counts as much as `prior_weight` outcomes of each.
  [[nodiscard]] std::vector<double> conditional(std::span<const double> prior, double prior_weight) const;

  /// The probability of position 1, greater by its standard error.
  [[nodiscard]] double hopeful_first(double prior, double prior_weight) const;

  /// The same without a prior from outside: position 1 starts from `first`, every other from the position before it.
  [[nodiscard]] std::vector<double> conditional(double first, double prior_weight, int64_t num_positions) const;

 private:
  struct Tally {
    double tried = 0.0;
    double held = 0.0;
  };
  [[nodiscard]] double estimate(size_t position, double prior, double prior_weight) const;
  [[nodiscard]] double trusted(double prior_weight) const;
  /// Log-probability of the streak that goes on, or begins, with this round.
  double extend_streak(int64_t num_drafted, int64_t num_accepted, std::span<const double> expected);

  double decay_;
  std::vector<Tally> tallies_;  // by position - 1
  bool streak_holds_ = false;   // of rounds whose drafts all held, else of rounds whose first draft failed
  double streak_log_ = 0.0;
  int64_t streak_rounds_ = 0;
  bool has_changed_ = false;
};

}  // namespace foretoken
