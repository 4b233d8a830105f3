#include "speculative/round_costs.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace foretoken {
namespace {

constexpr size_t kProof = 2;  // samples
/// Samples of a depth that count whatever they are.
constexpr size_t kMeasured = 3;
/// A round this far beyond the pace says nothing of its depth: something disturbed it, or the pace changes. Nothing makes rounds
/// shorter than they are: what was measured before was disturbed then.
constexpr double kMaxOffPace = 0.5;

int64_t bucket_of(int64_t num_sequences) { return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(num_sequences))); }

/// Drafts per sequence. Few among many are still not none: point 0 is the plain step.
double drafts_per_sequence(int64_t num_drafts, int64_t num_sequences) {
  return num_drafts == 0 ? 0.0 : std::max(static_cast<double>(num_drafts) / static_cast<double>(num_sequences), 0.5);
}

/// Median of the first `count` values, the lower one of two: what disturbs a round makes it longer.
template <size_t kSize>
double lower_median(std::array<double, kSize> values, size_t count) {
  const auto middle = values.begin() + static_cast<int64_t>((count - 1) / 2);
  std::nth_element(values.begin(), middle, values.begin() + static_cast<int64_t>(count));
  return *middle;
}

}  // namespace

void CostCurve::Point::add(double x, double us) {
  samples_[num_samples_ % kSamples] = us;
  ++num_samples_;
  const size_t count = std::min(num_samples_, kSamples);
  x_ += (x - x_) / static_cast<double>(count);
  median_us_ = lower_median(samples_, count);
}

void Pace::add(int64_t depth, double ratio) {
  ratios_[num_rounds_ % kRounds] = ratio;
  depths_[num_rounds_ % kRounds] = depth;
  ++num_rounds_;
  median_ = lower_median(ratios_, std::min(num_rounds_, kRounds));
}

bool Pace::is_set_by(int64_t depth) const {
  return num_rounds_ < kRounds || 5 * std::ranges::count(depths_, depth) > 4 * static_cast<int64_t>(kRounds);
}

void CostCurve::observe(double x, double us) { points_[std::llround(x)].add(x, us); }

size_t CostCurve::num_samples(int64_t point) const {
  const auto found = points_.find(point);
  return found == points_.end() ? 0 : found->second.num_samples();
}

double CostCurve::at(double x, size_t min_samples) const {
  const Point* first = nullptr;
  const Point* lower = nullptr;  // the last one up to x
  const Point* upper = nullptr;  // the first one beyond it
  for (const auto& [number, point] : points_) {
    if (point.num_samples() < min_samples) continue;
    if (first == nullptr) first = &point;
    if (point.x() > x) {
      upper = &point;
      break;
    }
    lower = &point;
  }
  if (first == nullptr) return 0.0;
  if (lower == nullptr || (upper == nullptr && lower == first)) return first->us();
  const Point& a = upper != nullptr ? *lower : *first;
  const Point& b = upper != nullptr ? *upper : *lower;
  const double us = a.us() + (b.us() - a.us()) * (x - a.x()) / (b.x() - a.x());
  return upper != nullptr ? us : std::max(us, lower->us());
}

double CostCurve::floor_at(double x, size_t min_samples) const {
  double us = 0.0;
  for (const auto& [number, point] : points_) {
    if (point.x() <= x) us = std::max(us, point.num_samples() < min_samples ? point.us() / 2.0 : point.us());
  }
  return us;
}

RoundCosts::Bucket& RoundCosts::bucket_for(int64_t num_sequences) {
  const auto [found, is_new] = buckets_.try_emplace(bucket_of(num_sequences));
  for (size_t i = 0; is_new && i < kProof; ++i) found->second.draft.observe(0.0, 0.0);  // no passes, no time
  return found->second;
}

void RoundCosts::add(Bucket& bucket, int64_t num_sequences, int64_t depth, int64_t num_drafts, const RoundTime& time,
                     double pace) {
  if (depth > 0) bucket.draft.observe(static_cast<double>(depth), time.draft_us / pace);
  bucket.rest.observe(drafts_per_sequence(num_drafts, num_sequences), (time.verify_us + time.host_us) / pace);
}

double RoundCosts::observe(int64_t num_sequences, int64_t depth, int64_t num_drafts, const RoundTime& time) {
  Bucket& bucket = bucket_for(num_sequences);
  const double pace = bucket.pace.value();
  const auto ratio = [&] { return time.total_us() / round_us(num_sequences, depth, num_drafts); };
  const bool is_known = is_proven(num_sequences, num_drafts) && bucket.draft.num_samples(depth) >= kProof;
  const bool is_telling = bucket.pace.goes_on(depth) && !bucket.pace.is_set_by(depth) && ratio() / pace - 1.0 < kMaxOffPace;
  const int64_t point = std::llround(drafts_per_sequence(num_drafts, num_sequences));
  const bool is_measured = is_known && bucket.rest.num_samples(point) >= kMeasured;
  if (!is_measured || is_telling) add(bucket, num_sequences, depth, num_drafts, time, pace);
  if (is_known) bucket.pace.add(depth, ratio());
  const double usual_us = round_us(num_sequences, depth, num_drafts);
  return std::clamp(time.total_us() / pace, usual_us / (1.0 + kMaxOffPace), usual_us * (1.0 + kMaxOffPace));
}

const RoundCosts::Bucket* RoundCosts::nearest(int64_t num_sequences) const {
  const auto doublings = [](int64_t bucket) { return std::countr_zero(static_cast<uint64_t>(bucket)); };
  const int wanted = doublings(bucket_of(num_sequences));
  const auto distance = [&](const auto& entry) { return std::abs(doublings(entry.first) - wanted); };
  const auto found = std::ranges::min_element(buckets_, {}, distance);
  return found == buckets_.end() ? nullptr : &found->second;
}

int64_t RoundCosts::deepest(int64_t num_sequences) const {
  const Bucket* bucket = nearest(num_sequences);
  return bucket == nullptr ? 0 : bucket->draft.last();
}

size_t RoundCosts::num_plain_samples(int64_t num_sequences) const {
  const auto found = buckets_.find(bucket_of(num_sequences));
  return found == buckets_.end() ? 0 : found->second.rest.num_samples(0);
}

bool RoundCosts::is_proven(int64_t num_sequences, int64_t num_drafts) const {
  const auto found = buckets_.find(bucket_of(num_sequences));
  const int64_t point = std::llround(drafts_per_sequence(num_drafts, num_sequences));
  return found != buckets_.end() && found->second.rest.num_samples(point) >= kProof;
}

double RoundCosts::round_us(int64_t num_sequences, int64_t depth, int64_t num_drafts) const {
  return draft_us(num_sequences, depth, Estimate::kLikely) + rest_us(num_sequences, num_drafts, Estimate::kLikely);
}

double RoundCosts::draft_us(int64_t num_sequences, int64_t depth, Estimate estimate) const {
  if (buckets_.empty()) return 0.0;
  const CostCurve& draft = nearest(num_sequences)->draft;
  const auto x = static_cast<double>(depth);
  return estimate == Estimate::kLikely ? draft.at(x) : std::max(draft.at(x, kProof), draft.at(x) / 2.0);
}

double RoundCosts::rest_us(int64_t num_sequences, int64_t num_drafts, Estimate estimate) const {
  if (buckets_.empty()) return 0.0;
  const CostCurve& rest = nearest(num_sequences)->rest;
  const double x = drafts_per_sequence(num_drafts, num_sequences);
  return estimate == Estimate::kLikely ? rest.at(x) : rest.floor_at(x, kProof);
}

}  // namespace foretoken
