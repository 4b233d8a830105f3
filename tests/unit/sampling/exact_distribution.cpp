#include "tests/unit/sampling/exact_distribution.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace foretoken::test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

void penalise(std::vector<double>& logits, const SamplingParams& params, const TokenHistory& history) {
  std::vector<int64_t> output(logits.size());
  std::vector<bool> seen(logits.size());
  for (const int32_t id : history.prompt) seen[static_cast<size_t>(id)] = true;
  for (const int32_t id : history.output) {
    ++output[static_cast<size_t>(id)];
    seen[static_cast<size_t>(id)] = true;
  }
  for (size_t v = 0; v < logits.size(); ++v) {
    if (seen[v]) logits[v] *= logits[v] > 0.0 ? 1.0 / params.repetition_penalty : params.repetition_penalty;
    logits[v] -= params.frequency_penalty * static_cast<double>(output[v]);
    if (output[v] > 0) logits[v] -= params.presence_penalty;
  }
}

void normalise(std::vector<double>& p) {
  const double sum = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& one : p) one /= sum;
}

/// Sets all but the first `count` of the order to 0.
void keep_first(std::vector<double>& p, std::span<const size_t> order, size_t count) {
  for (size_t i = count; i < order.size(); ++i) p[order[i]] = 0.0;
  normalise(p);
}

}  // namespace

std::vector<double> exact_distribution(std::span<const float> logits, const SamplingParams& params, const TokenHistory& history) {
  std::vector<double> l(logits.begin(), logits.end());
  for (const auto& [id, bias] : params.logit_bias) l[static_cast<size_t>(id)] += static_cast<double>(bias);
  if (static_cast<int64_t>(history.output.size()) < params.min_tokens) {
    for (const int32_t id : params.stop_token_ids) l[static_cast<size_t>(id)] = -kInfinity;
  }
  penalise(l, params, history);
  std::vector<size_t> order(l.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater(), [&](size_t v) { return l[v]; });
  std::vector<double> p(l.size());
  if (params.temperature == 0.0F) {
    p[order[0]] = 1.0;
    return p;
  }
  for (size_t v = 0; v < p.size(); ++v) p[v] = std::exp((l[v] - l[order[0]]) / static_cast<double>(params.temperature));
  normalise(p);
  if (params.top_k > 0) keep_first(p, order, std::min(order.size(), static_cast<size_t>(params.top_k)));
  double before = 0.0;
  size_t kept = 0;
  while (kept < order.size() && (kept == 0 || before < static_cast<double>(params.top_p))) before += p[order[kept++]];
  if (params.top_p < 1.0F) keep_first(p, order, kept);
  const double least = static_cast<double>(params.min_p) * p[order[0]];
  for (double& one : p) one = one >= least ? one : 0.0;
  normalise(p);
  return p;
}

double chi_square_deviations(std::span<const int64_t> counts, std::span<const double> probabilities) {
  constexpr double kFewest = 10.0;
  const auto draws = static_cast<double>(std::accumulate(counts.begin(), counts.end(), int64_t{0}));
  double statistic = 0.0;
  double cells = 0.0;
  double rare_expected = 0.0;
  double rare_count = 0.0;
  const auto add = [&](double count, double expected) {
    statistic += (count - expected) * (count - expected) / expected;
    cells += 1.0;
  };
  for (size_t i = 0; i < counts.size(); ++i) {
    const double expected = draws * probabilities[i];
    const auto count = static_cast<double>(counts[i]);
    if (expected == 0.0 && count > 0.0) return kInfinity;
    if (expected < kFewest) {
      rare_expected += expected;
      rare_count += count;
    } else {
      add(count, expected);
    }
  }
  if (rare_expected >= kFewest) add(rare_count, rare_expected);
  const double freedom = std::max(cells - 1.0, 1.0);
  return (statistic - freedom) / std::sqrt(2.0 * freedom);
}

}  // namespace foretoken::test
