#include "speculative/generation.h"

#include <algorithm>
#include <numeric>

namespace foretoken {

std::string_view to_string(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop: return "stop";
    case FinishReason::kLength: return "length";
    case FinishReason::kCancelled: return "cancelled";
  }
  return "unknown";
}

int64_t SpeculationStats::accepted() const {
  return std::accumulate(accepted_per_round.begin(), accepted_per_round.end(), int64_t{0});
}

std::vector<double> SpeculationStats::acceptance_by_position(int64_t depth) const {
  std::vector<double> shares;
  for (int64_t position = 1; position <= depth && rounds() > 0; ++position) {
    const auto reached = std::ranges::count_if(accepted_per_round, [&](int64_t accepted) { return accepted >= position; });
    shares.push_back(static_cast<double>(reached) / static_cast<double>(rounds()));
  }
  return shares;
}

double SpeculationStats::mean_tokens_per_round() const {
  return rounds() == 0 ? 0.0 : 1.0 + static_cast<double>(accepted()) / static_cast<double>(rounds());
}

}  // namespace foretoken
