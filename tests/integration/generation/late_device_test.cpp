// The boundary holds for devices unlike a CPU: launches run late on another thread, the host sees device memory through copies
// only, Programs are replayed with changed inputs. Layers, caches and the loop pass on it unchanged.
#include <gtest/gtest.h>

#include "test_model.h"
#include "tests/support/golden.h"
#include "tests/support/late_device.h"

namespace foretoken::test {
namespace {

class LateDeviceTest : public ::testing::TestWithParam<std::string> {};

TEST_P(LateDeviceTest, TheWholeLoopGivesTheGoldenTextAndAcceptance) {
  const auto backend = make_late_backend({.num_threads = 1}, {.seed = 3});
  const Golden golden(GetParam() + ".golden.safetensors");
  TestModel model(*backend, GetParam(), {.prefill_chunk = 16, .self_check = true});
  for (int64_t i : {0, 3, 25, 31}) {
    const std::vector<int32_t> prompt = golden.i32("prompt_" + std::to_string(i));
    for (int64_t depth : {0, 1, 3, 15}) {
      const GenerationResult result = model.generate(prompt, depth);
      EXPECT_EQ(result.output_token_ids, golden.i32("greedy_" + std::to_string(i))) << "prompt " << i << ", depth " << depth;
      EXPECT_EQ(result.self_check.rows_different, 0);
    }
  }
}

TEST_P(LateDeviceTest, PausesAndForcedAcceptCountsGiveThePlainText) {
  const auto backend = make_late_backend({.num_threads = 1}, {.seed = 4});
  const Golden golden(GetParam() + ".golden.safetensors");
  TestModel model(*backend, GetParam());
  const std::vector<int32_t> prompt = golden.i32("prompt_30");
  GenerationOptions options{.max_tokens = 80, .num_speculative_tokens = 0};
  const std::vector<int32_t> plain = model.generator().generate(prompt, options).output_token_ids;
  options.num_speculative_tokens = 6;
  options.depth_pattern = {6, 0, 0, 3, 1, 0, 6};
  options.forced = {.pattern = {0, 2, 6, 1}, .continuation = plain};
  EXPECT_EQ(model.generator().generate(prompt, options).output_token_ids, plain);
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, LateDeviceTest, ::testing::Values("tiny-dense", "tiny-moe"),
                         [](const auto& instance) { return instance.param == "tiny-dense" ? "TinyDense" : "TinyMoe"; });

}  // namespace
}  // namespace foretoken::test
