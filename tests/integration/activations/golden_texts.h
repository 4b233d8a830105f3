// Drafts along the golden texts: what a device with coarser activations is measured by, since its own text may leave the golden
// one where two tokens are nearly as likely.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "test_model.h"

namespace foretoken::test {

inline constexpr int64_t kGoldenDepth = 5;
using GoldenDrafts = std::array<int32_t, kGoldenDepth>;

/// What a model does after each token of a golden text while that text is its context.
struct GoldenWalk {
  std::vector<int32_t> picks;        // the target's, [i] after the prompt and i tokens of the text
  std::vector<GoldenDrafts> drafts;  // [i]: after token i of the text
};

/// Walks along `text`, which follows `prompt`.
[[nodiscard]] GoldenWalk walk_along(TestModel& model, std::span<const int32_t> prompt, std::span<const int32_t> text);

/// Accepted drafts of each round that decodes `text` with `depth` of those drafts, as the reference counts them.
[[nodiscard]] std::vector<int64_t> accepted_per_round(std::span<const int32_t> text, std::span<const GoldenDrafts> drafts,
                                                      int64_t depth);

}  // namespace foretoken::test
