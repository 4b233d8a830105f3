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

/// `samples` holds at least one.
[[nodiscard]] inline Spread spread_of(std::vector<double> samples) {
  std::ranges::sort(samples);
  const auto at = [&samples](double fraction) {
    return samples[static_cast<size_t>(std::lround(fraction * static_cast<double>(samples.size() - 1)))];
  };
  return {.p10 = at(0.1), .median = at(0.5), .p90 = at(0.9)};
}

}  // namespace foretoken::cli
