// Drafts as the golden files have them: after a prompt and its first greedy token.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "test_model.h"

namespace foretoken::test {

struct Drafted {
  std::vector<int32_t> token_ids;
  std::vector<float> logprobs;  // where the model measures them
};

/// `num_drafts` chained drafts with exact drafter rows.
[[nodiscard]] Drafted draft_after(TestModel& model, std::span<const int32_t> prompt, int64_t num_drafts);

}  // namespace foretoken::test
