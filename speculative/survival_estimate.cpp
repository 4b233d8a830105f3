#include "speculative/survival_estimate.h"

#include <algorithm>
#include <cmath>

namespace foretoken {
namespace {

/// A streak of less than this probability is not chance.
constexpr double kChanceOfStreak = 0.0001;
/// What takes longer to become improbable is no sudden change; the estimate follows by itself.
constexpr int64_t kMaxStreak = 16;  // rounds
/// What outcomes that a change disproves still count.
constexpr double kDoubt = 0.5;
/// Share of its weight that a prior keeps in a text that changed.
constexpr double kDoubtedPrior = 0.375;
/// No draft is certain, and none is hopeless: the product over many positions and the logarithms stay finite.
constexpr double kMinProbability = 0.002;
constexpr double kMaxProbability = 0.995;

}  // namespace

SurvivalEstimate::SurvivalEstimate(double memory) : decay_(1.0 - 1.0 / memory) {}

double SurvivalEstimate::extend_streak(int64_t num_drafted, int64_t num_accepted, std::span<const double> expected) {
  const bool all_held = num_accepted == num_drafted;
  const bool none_held = num_accepted == 0;
  if (all_held != streak_holds_ || !(all_held || none_held) || streak_rounds_ == kMaxStreak) {
    streak_log_ = 0.0;
    streak_rounds_ = 0;
  }
  streak_holds_ = all_held;
  ++streak_rounds_;
  if (none_held) streak_log_ += std::log1p(-expected[0]);
  for (int64_t j = 0; all_held && j < num_drafted; ++j) streak_log_ += std::log(expected[static_cast<size_t>(j)]);
  return streak_log_;
}

bool SurvivalEstimate::observe(int64_t num_drafted, int64_t num_accepted, std::span<const double> expected) {
  const bool has_changed = extend_streak(num_drafted, num_accepted, expected) < std::log(kChanceOfStreak);
  if (has_changed) {
    has_changed_ = true;
    streak_log_ = 0.0;
    streak_rounds_ = 0;
    const size_t num_changed = num_accepted > 0 ? static_cast<size_t>(num_drafted) : 1;
    for (size_t j = 0; j < std::min(num_changed, tallies_.size()); ++j) {
      const double failed = tallies_[j].tried - tallies_[j].held;
      tallies_[j].held = num_accepted > 0 ? tallies_[j].held : std::min(tallies_[j].held, kDoubt);
      tallies_[j].tried = tallies_[j].held + (num_accepted > 0 ? std::min(failed, kDoubt) : failed);
    }
  }
  const auto num_tried = static_cast<size_t>(std::min(num_drafted, num_accepted + 1));
  tallies_.resize(std::max(tallies_.size(), num_tried));
  for (size_t j = 0; j < tallies_.size(); ++j) {
    const bool is_tried = j < num_tried;
    const bool holds = static_cast<int64_t>(j) < num_accepted;
    tallies_[j].tried = tallies_[j].tried * decay_ + (is_tried ? 1.0 : 0.0);
    tallies_[j].held = tallies_[j].held * decay_ + (holds ? 1.0 : 0.0);
  }
  return has_changed;
}

double SurvivalEstimate::trusted(double prior_weight) const { return has_changed_ ? kDoubtedPrior * prior_weight : prior_weight; }

double SurvivalEstimate::estimate(size_t position, double prior, double prior_weight) const {
  const Tally tally = position < tallies_.size() ? tallies_[position] : Tally();
  const double weight = trusted(prior_weight);
  return std::clamp((tally.held + weight * prior) / (tally.tried + weight), kMinProbability, kMaxProbability);
}

std::vector<double> SurvivalEstimate::conditional(std::span<const double> prior, double prior_weight) const {
  std::vector<double> result(prior.size());
  for (size_t j = 0; j < result.size(); ++j) result[j] = estimate(j, prior[j], prior_weight);
  return result;
}

double SurvivalEstimate::hopeful_first(double prior, double prior_weight) const {
  const double mean = estimate(0, prior, prior_weight);
  const double tried = tallies_.empty() ? 0.0 : tallies_[0].tried;
  return std::min(mean + std::sqrt(mean * (1.0 - mean) / (tried + trusted(prior_weight))), kMaxProbability);
}

std::vector<double> SurvivalEstimate::conditional(double first, double prior_weight, int64_t num_positions) const {
  std::vector<double> result(static_cast<size_t>(num_positions));
  for (size_t j = 0; j < result.size(); ++j) result[j] = estimate(j, j == 0 ? first : result[j - 1], prior_weight);
  return result;
}

}  // namespace foretoken
