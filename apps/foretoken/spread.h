// Times of something measured several times.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

namespace foretoken::cli {

/// The middle of the samples, and how far they spread.
struct Spread {
  double p10 = 0.0;
  double median = 0.0;
  double p90 = 0.0;
};

/// The sample at `fraction` (0 .. 1) of the way from the least to the greatest. `sorted` holds at least one, in rising order.
[[nodiscard]] inline double quantile(const std::vector<double>& sorted, double fraction) {
  return sorted[static_cast<size_t>(std::lround(fraction * static_cast<double>(sorted.size() - 1)))];
}

/// `samples` holds at least one.
[[nodiscard]] inline Spread spread_of(std::vector<double> samples) {
  std::ranges::sort(samples);
  return {.p10 = quantile(samples, 0.1), .median = quantile(samples, 0.5), .p90 = quantile(samples, 0.9)};
}

}  // namespace foretoken::cli
