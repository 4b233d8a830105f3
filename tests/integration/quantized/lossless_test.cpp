// Speculation changes no bit of quantised checkpoints: texts, and the target's logits row by row.
#include <gtest/gtest.h>

#include "quantized_checkpoints.h"
#include "test_model.h"
#include "tests/support/golden.h"

namespace foretoken::test {
namespace {

constexpr int64_t kMaxTokens = 32;
constexpr std::array<int64_t, 6> kPrompts{0, 3, 5, 24, 25, 31};

class QuantizedLossless : public ::testing::TestWithParam<const char*> {};

/// All depths; the self-check compares the logits of every committed row with plain one-row steps.
TEST_P(QuantizedLossless, EveryDepthGivesTheSameIdsAndLogits) {
  const auto backend = open_test_device();
  const Availability usable = usable_on(*backend, GetParam());
  if (!usable) GTEST_SKIP() << usable.reason();
  const Golden golden("tiny-moe.golden.safetensors");  // for its prompts
  TestModel model(*backend, quantized_checkpoint(GetParam()), {.cache_dtype = DType::kBF16, .self_check = true});
  int64_t accepted = 0;
  for (const int64_t i : kPrompts) {
    const std::vector<int32_t> prompt = golden.i32("prompt_" + std::to_string(i));
    const std::vector<int32_t> plain = model.generate(prompt, 0, kMaxTokens).output_token_ids;
    for (int64_t depth = 1; depth <= 15; ++depth) {
      const GenerationResult result = model.generate(prompt, depth, kMaxTokens);
      const std::string what = "prompt " + std::to_string(i) + ", depth " + std::to_string(depth);
      EXPECT_EQ(result.output_token_ids, plain) << what;
      EXPECT_GE(result.self_check.rows_checked, static_cast<int64_t>(plain.size()) - 1) << what;
      EXPECT_EQ(result.self_check.rows_different, 0) << what << ", first at token " << result.self_check.first_difference;
      accepted += result.speculation.accepted();
    }
  }
  EXPECT_GT(accepted, 0);
}

std::string name_of(const testing::TestParamInfo<const char*>& instance) { return instance_name(instance.param); }

INSTANTIATE_TEST_SUITE_P(Checkpoints, QuantizedLossless, ::testing::ValuesIn(kQuantizedCheckpoints), name_of);
INSTANTIATE_TEST_SUITE_P(OtherFormats, QuantizedLossless, ::testing::ValuesIn(kOtherQuantizedCheckpoints), name_of);

}  // namespace
}  // namespace foretoken::test
