// What sampling must give, in float64 and on its own: no code of the operators.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "speculative/sampling_params.h"

namespace foretoken::test {

/// Tokens that a row follows.
struct TokenHistory {
  std::vector<int32_t> prompt{};
  std::vector<int32_t> output{};
};

/// Probabilities of the next token; at temperature 0 all of it is at the best one. Masks are not known here.
std::vector<double> exact_distribution(std::span<const float> logits, const SamplingParams& params, const TokenHistory& history);

/// How many standard deviations the chi-square statistic of `counts` against `probabilities` is above its mean. Cells with few
/// expected draws are joined; draws in impossible cells give infinity.
double chi_square_deviations(std::span<const int64_t> counts, std::span<const double> probabilities);

}  // namespace foretoken::test
