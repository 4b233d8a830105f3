// Checkpoints in FP8 and NVFP4 against values from float64 arithmetic on the dequantised weights.
#include <gtest/gtest.h>

#include "golden_drafts.h"
#include "quantized_checkpoints.h"
#include "test_model.h"
#include "tests/support/golden.h"

namespace foretoken::test {
namespace {

constexpr float kClearMargin = 1e-3F;
constexpr double kTolerance = 1e-3;

std::string indexed(const std::string& name, int64_t index) { return name + "_" + std::to_string(index); }

class QuantizedGolden : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const Availability usable = usable_on(*backend_, GetParam());
    if (!usable) GTEST_SKIP() << usable.reason();
  }
  [[nodiscard]] TestModel make(const TestModelOptions& options) {
    return TestModel(*backend_, quantized_checkpoint(GetParam()), options);
  }
  [[nodiscard]] std::vector<int32_t> prompt(int64_t i) const { return golden_.i32(indexed("prompt", i)); }

  std::unique_ptr<GpuBackend> backend_ = open_test_device();
  Golden golden_{std::string(GetParam()) + ".golden.safetensors"};
};

/// Float32 prefill and KV, with the golden ids as context, so that a step that is too close to tell spoils no other.
TEST_P(QuantizedGolden, GreedyIdsAreTheGoldenOnesWhereTheMarginIsClear) {
  TestModel model = make({.keep_logits = true});
  int64_t clear = 0;
  for (const int64_t i : kQuantizedPrompts) {
    const std::vector<int32_t> expected = golden_.i32(indexed("greedy", i));
    const std::vector<float> margins = golden_.f32(indexed("margin", i));
    TargetSequence sequence = model.runner().create_sequence(static_cast<int64_t>(prompt(i).size() + expected.size()));
    model.runner().prefill(sequence, prompt(i), nullptr);
    const std::vector<float> logits = model.read(model.runner().logits().rows(0, 1));
    EXPECT_LT(relative_error(logits, golden_.f32(indexed("logits_last_prompt", i)), model.config().vocab_size), kTolerance)
        << "prompt " << i;
    for (size_t step = 0; step < expected.size(); ++step) {
      if (step > 0) model.runner().decode(sequence, expected[step - 1]);
      if (margins[step] < kClearMargin) continue;
      ++clear;
      EXPECT_EQ(model.runner().read_picks(1)[0], expected[step]) << "prompt " << i << ", step " << step;
    }
  }
  EXPECT_GE(clear, 300);
}

/// Equal up to the first draft whose margin is too small to tell.
TEST_P(QuantizedGolden, ChainedDraftsAndTheirLogProbabilitiesAgree) {
  TestModel model = make({.log_probabilities = true});
  int64_t clear = 0;
  for (const int64_t i : kQuantizedPrompts) {
    const Drafted drafted = draft_after(model, prompt(i), 8);
    const std::vector<int32_t> expected = golden_.i32(indexed("drafts", i));
    const std::vector<float> margins = golden_.f32(indexed("draft_margins", i));
    const std::vector<float> logprobs = golden_.f32(indexed("draft_logprobs", i));
    for (size_t j = 0; j < expected.size() && margins[j] >= kClearMargin; ++j) {
      ++clear;
      ASSERT_EQ(drafted.token_ids[j], expected[j]) << "prompt " << i << ", draft " << j;
      EXPECT_NEAR(drafted.logprobs[j], logprobs[j], 1e-3) << "prompt " << i << ", draft " << j;
    }
  }
  EXPECT_GE(clear, 90);
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, QuantizedGolden, ::testing::ValuesIn(kQuantizedCheckpoints),
                         [](const auto& instance) { return instance_name(instance.param); });

}  // namespace
}  // namespace foretoken::test
