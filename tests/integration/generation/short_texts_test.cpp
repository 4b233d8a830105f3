// What every device must show, in few enough steps for one that runs on this machine's CPU: golden picks where the margin is
// clear, golden acceptance, and one text at every depth.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "test_model.h"
#include "tests/integration/activations/golden_texts.h"
#include "tests/support/golden.h"

namespace foretoken::test {
namespace {

constexpr float kClearMargin = 0.15F;

class ShortTextsTest : public ::testing::TestWithParam<std::string> {
 protected:
  [[nodiscard]] std::vector<int32_t> prompt(size_t i) const { return golden_.i32("prompt_" + std::to_string(i)); }
  /// Follows the golden text of a prompt and expects its picks where the margin is clear.
  GoldenWalk walk(TestModel& model, size_t i);

  std::unique_ptr<GpuBackend> backend_ = open_test_device();
  Golden golden_{GetParam() + ".golden.safetensors"};
};

GoldenWalk ShortTextsTest::walk(TestModel& model, size_t i) {
  const std::vector<int32_t> text = golden_.i32("greedy_" + std::to_string(i));
  const std::vector<float> margins = golden_.f32("margin_" + std::to_string(i));
  GoldenWalk walk = walk_along(model, prompt(i), text);
  size_t num_clear = 0;
  for (size_t step = 0; step < text.size(); ++step) {
    if (margins[step] < kClearMargin) continue;
    ++num_clear;
    EXPECT_EQ(walk.picks[step], text[step]) << "prompt " << i << ", step " << step;
  }
  EXPECT_GT(num_clear, text.size() / 2) << "prompt " << i;
  return walk;
}

TEST_P(ShortTextsTest, PicksAndAcceptanceAreGolden) {
  TestModel model(*backend_, GetParam(), {.max_seq_len = 256, .max_drafts = kGoldenDepth});
  std::ifstream file(data_path("golden/" + GetParam() + ".json"));
  const nlohmann::json golden = nlohmann::json::parse(file);
  std::array<std::vector<int64_t>, kGoldenDepth + 1> accepted;
  std::array<std::vector<int64_t>, kGoldenDepth + 1> expected;
  for (const size_t i : {3U, 7U, 20U, 25U}) {
    const GoldenWalk walked = walk(model, i);
    for (int64_t depth = 1; depth <= kGoldenDepth; ++depth) {
      const auto at = static_cast<size_t>(depth);
      const auto own = accepted_per_round(golden_.i32("greedy_" + std::to_string(i)), walked.drafts, depth);
      const auto rounds = golden["prompts"][i]["accepted_per_round"][std::to_string(depth)].get<std::vector<int64_t>>();
      accepted[at].insert(accepted[at].end(), own.begin(), own.end());
      expected[at].insert(expected[at].end(), rounds.begin(), rounds.end());
    }
  }
  const auto share = [](const std::vector<int64_t>& rounds, int64_t depth) {
    const int64_t sum = std::accumulate(rounds.begin(), rounds.end(), int64_t{0});
    return static_cast<double>(sum) / static_cast<double>(depth * static_cast<int64_t>(rounds.size()));
  };
  for (int64_t depth = 1; depth <= kGoldenDepth; ++depth) {
    const auto at = static_cast<size_t>(depth);
    EXPECT_NEAR(share(accepted[at], depth), share(expected[at], depth), 0.02) << "depth " << depth;
  }
}

TEST_P(ShortTextsTest, PicksAreGoldenWithTheDevicesBestActivations) {
  const DType best = backend_->capabilities().activation_dtypes.front();
  TestModel model(*backend_, GetParam(),
                  {.cache_dtype = DType::kBF16, .activation_dtype = best, .max_seq_len = 256, .max_drafts = kGoldenDepth});
  for (const size_t i : {3U, 21U}) static_cast<void>(walk(model, i));
}

/// As users have it. The self-check compares the logits of every committed row with plain one-row steps, bit for bit.
TEST_P(ShortTextsTest, EveryDepthGivesTheSameIdsAndLogits) {
  const DType best = backend_->capabilities().activation_dtypes.front();
  TestModel model(
      *backend_, GetParam(),
      {.cache_dtype = DType::kBF16, .activation_dtype = best, .max_seq_len = 256, .max_drafts = 7, .self_check = true});
  constexpr int64_t kMaxTokens = 16;
  for (const size_t i : {1U, 26U}) {
    const std::vector<int32_t> plain = model.generate(prompt(i), 0, kMaxTokens).output_token_ids;
    ASSERT_EQ(static_cast<int64_t>(plain.size()), kMaxTokens) << "prompt " << i;
    for (int64_t depth = 1; depth <= 7; ++depth) {
      const GenerationResult result = model.generate(prompt(i), depth, kMaxTokens);
      EXPECT_EQ(result.output_token_ids, plain) << "prompt " << i << ", depth " << depth;
      EXPECT_GE(result.self_check.rows_checked, kMaxTokens - 1) << "prompt " << i << ", depth " << depth;
      EXPECT_EQ(result.self_check.rows_different, 0) << "prompt " << i << ", depth " << depth;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, ShortTextsTest, ::testing::Values("tiny-dense", "tiny-moe"),
                         [](const auto& instance) { return instance.param == "tiny-dense" ? "TinyDense" : "TinyMoe"; });

}  // namespace
}  // namespace foretoken::test
