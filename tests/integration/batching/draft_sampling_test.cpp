// Drafts that are drawn from the drafter's distribution, in the engine: they are accepted as often as the drafter's best tokens
// are at low temperatures, or more often.
#include <gtest/gtest.h>

#include "test_model.h"
#include "tests/support/golden.h"

namespace foretoken::test {
namespace {

class DraftSamplingTest : public ::testing::TestWithParam<std::string> {
 protected:
  /// Share of the drafts that were accepted, over some prompts and seeds.
  double acceptance(TestModel& model, float temperature, DraftSampling sampling) {
    int64_t accepted = 0;
    int64_t drafted = 0;
    for (uint64_t seed = 0; seed < 6; ++seed) {
      GenerationOptions options{.max_tokens = 48, .num_speculative_tokens = 3};
      options.sampling.temperature = temperature;
      options.sampling.seed = seed;
      options.sampling.draft_sampling = sampling;
      const auto prompt = golden_.i32("prompt_" + std::to_string(24 + seed));
      const GenerationResult result = model.generator().generate(prompt, options);
      accepted += result.speculation.accepted();
      drafted += result.speculation.drafted;
    }
    return static_cast<double>(accepted) / static_cast<double>(drafted);
  }

  std::unique_ptr<GpuBackend> backend_ = open_test_device();
  Golden golden_{GetParam() + ".golden.safetensors"};
};

TEST_P(DraftSamplingTest, AcceptsAboutAsManyDraftsAsTheBestTokensOrMore) {
  TestModelOptions options{.max_seq_len = 256, .max_drafts = 3};
  options.sampling = SamplerOptions{};
  TestModel model(*backend_, GetParam(), options);
  for (const float temperature : {0.3F, 0.7F}) {
    const double greedy = acceptance(model, temperature, DraftSampling::kGreedy);
    const double rejection = acceptance(model, temperature, DraftSampling::kRejection);
    const double block = acceptance(model, temperature, DraftSampling::kBlock);
    RecordProperty("temperature_" + std::to_string(temperature),
                   std::to_string(greedy) + " " + std::to_string(rejection) + " " + std::to_string(block));
    EXPECT_GT(rejection, greedy - 0.05) << "temperature " << temperature;
    EXPECT_GT(block, greedy - 0.05) << "temperature " << temperature;
  }
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, DraftSamplingTest, ::testing::Values("tiny-dense", "tiny-moe"),
                         [](const auto& instance) { return instance.param == "tiny-dense" ? "TinyDense" : "TinyMoe"; });

}  // namespace
}  // namespace foretoken::test
