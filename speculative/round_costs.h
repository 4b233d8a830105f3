// What rounds cost on this device, learned from their times.
#pragma once

#include <array>
#include <cstdint>
#include <map>

#include "speculative/depth_policy.h"

namespace foretoken {

/// Time over something that a round has more or less of, as measured at whole numbers of it. Each point is the median of its last
/// samples, so a disturbed one does not count.
class CostCurve {
 public:
  /// Adds a sample to the point that is nearest to `x`.
  void observe(double x, double us);

  /// Straight lines between the points that have `min_samples`; level before the first, and after the last with the mean rise
  /// from the first to it. Without such a point, 0.
  [[nodiscard]] double at(double x, size_t min_samples = 1) const;

  /// What a cost that never falls with growing x cannot be below: the greatest point up to `x`, half of it where it was measured
  /// less than `min_samples` times.
  [[nodiscard]] double floor_at(double x, size_t min_samples) const;

  /// Samples at a point.
  [[nodiscard]] size_t num_samples(int64_t point) const;
  /// Greatest measured point; 0 without any.
  [[nodiscard]] int64_t last() const { return points_.empty() ? 0 : points_.rbegin()->first; }

 private:
  class Point {
   public:
    void add(double x, double us);
    [[nodiscard]] double x() const { return x_; }
    [[nodiscard]] double us() const { return median_us_; }
    [[nodiscard]] size_t num_samples() const { return num_samples_; }

   private:
    static constexpr size_t kSamples = 15;
    std::array<double, kSamples> samples_{};  // a ring
    size_t num_samples_ = 0;
    double x_ = 0.0;  // where the samples lie on average
    double median_us_ = 0.0;
  };
  std::map<int64_t, Point> points_;
};

/// How much longer than expected the last rounds took: the median of their ratios, which follows a lasting change in five rounds.
class Pace {
 public:
  void add(int64_t depth, double ratio);
  /// 1 before the first.
  [[nodiscard]] double value() const { return median_; }
  /// Whether it is set by rounds of this depth almost alone, or by too few: those after a prompt take longer.
  [[nodiscard]] bool is_set_by(int64_t depth) const;
  /// Whether the last round was of this depth.
  [[nodiscard]] bool goes_on(int64_t depth) const { return depths_[(num_rounds_ + kRounds - 1) % kRounds] == depth; }

 private:
  static constexpr size_t kRounds = 9;
  std::array<double, kRounds> ratios_{};  // a ring, as the next
  std::array<int64_t, kRounds> depths_{};
  size_t num_rounds_ = 0;
  double median_ = 1.0;
};

/// The cost of a round of some sequences, its draft Program of `depth` passes apart from all else, which grows with the rows that
/// it verifies. Numbers of sequences share what was measured up to the next power of two; where nothing was, the nearest one
/// that was stands in.
///
/// Rounds become longer as texts do, and on a device that others use, all depths alike. So the last rounds set a pace, their time
/// against what the curves say, and a sample counts by what is left of it at that pace, as long as rounds of other depths set it:
/// estimates of depths that were not tried for a while stay comparable, in units of the first samples. The first round of a
/// depth after one of another does not count: it takes longer, with its weights and code not in any cache.
class RoundCosts {
 public:
  /// kLowest: as little as the measurements leave possible. One sample alone proves nothing.
  enum class Estimate : uint8_t { kLikely, kLowest };

  /// `depth`: most drafts of a sequence; `num_drafts`: of all together. Returns the round's time at the pace before it, but not
  /// so much of it as something else must have taken.
  double observe(int64_t num_sequences, int64_t depth, int64_t num_drafts, const RoundTime& time);
  /// The same for a round outside any text, which has no pace.
  void learn(int64_t num_sequences, int64_t depth, int64_t num_drafts, const RoundTime& time) {
    add(bucket_for(num_sequences), num_sequences, depth, num_drafts, time, 1.0);
  }

  /// Greatest measured depth of the numbers of sequences that stand in; 0 without any.
  [[nodiscard]] int64_t deepest(int64_t num_sequences) const;

  [[nodiscard]] size_t num_plain_samples(int64_t num_sequences) const;
  /// Whether rounds of so many sequences and about so many drafts were measured more than once.
  [[nodiscard]] bool is_proven(int64_t num_sequences, int64_t num_drafts) const;

  /// Estimates; 0 before anything was measured.
  [[nodiscard]] double plain_us(int64_t num_sequences) const { return rest_us(num_sequences, 0, Estimate::kLikely); }
  [[nodiscard]] double round_us(int64_t num_sequences, int64_t depth, int64_t num_drafts) const;
  [[nodiscard]] double draft_us(int64_t num_sequences, int64_t depth, Estimate estimate) const;
  [[nodiscard]] double rest_us(int64_t num_sequences, int64_t num_drafts, Estimate estimate) const;

 private:
  struct Bucket {
    CostCurve draft;  // over the depth
    CostCurve rest;   // over drafts per sequence
    Pace pace;
  };
  [[nodiscard]] const Bucket* nearest(int64_t num_sequences) const;
  [[nodiscard]] Bucket& bucket_for(int64_t num_sequences);
  static void add(Bucket& bucket, int64_t num_sequences, int64_t depth, int64_t num_drafts, const RoundTime& time, double pace);

  std::map<int64_t, Bucket> buckets_;  // by sequences, a power of two
};

}  // namespace foretoken
