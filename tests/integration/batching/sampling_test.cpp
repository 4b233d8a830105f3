// Sampled texts in the engine: at a fixed depth the text of a seed is the same alone, in a batch and after preemption; with
// greedy drafts it is the text of plain sampling.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "core/error.h"
#include "test_model.h"
#include "tests/support/golden.h"

namespace foretoken::test {
namespace {

class SampledEngineTest : public ::testing::TestWithParam<std::string> {
 protected:
  [[nodiscard]] std::vector<int32_t> prompt(int64_t i) const { return golden_.i32("prompt_" + std::to_string(i)); }
  static TestModelOptions options(int32_t max_sequences) {
    TestModelOptions wanted{.max_seq_len = 256, .max_drafts = 5};
    wanted.max_sequences = max_sequences;
    wanted.sampling = SamplerOptions{.max_mask_rows = 6 * 16};
    return wanted;
  }
  static GenerationOptions sampled(int64_t depth, uint64_t seed, DraftSampling drafts = DraftSampling::kGreedy) {
    GenerationOptions options{.max_tokens = 40, .num_speculative_tokens = depth};
    options.sampling.temperature = 0.8F;
    options.sampling.top_p = 0.95F;
    options.sampling.repetition_penalty = 1.1F;
    options.sampling.frequency_penalty = 0.2F;
    options.sampling.seed = seed;
    options.sampling.draft_sampling = drafts;
    return options;
  }

  std::unique_ptr<GpuBackend> backend_ = open_test_device();
  Golden golden_{GetParam() + ".golden.safetensors"};
};

TEST_P(SampledEngineTest, GreedyDraftsGiveTheTextOfPlainSampling) {
  TestModel model(*backend_, GetParam(), options(1));
  int64_t accepted = 0;
  for (const uint64_t seed : {1U, 2U, 3U}) {
    const GenerationResult plain = model.generator().generate(prompt(25), sampled(0, seed));
    for (const int64_t depth : {1, 3, 5}) {
      const GenerationResult result = model.generator().generate(prompt(25), sampled(depth, seed));
      EXPECT_EQ(result.output_token_ids, plain.output_token_ids) << "seed " << seed << ", depth " << depth;
      accepted += result.speculation.accepted();
    }
  }
  EXPECT_GT(accepted, 0);
}

TEST_P(SampledEngineTest, TextsOfABatchAreThoseOfEachSeedAlone) {
  for (const DraftSampling drafts : {DraftSampling::kGreedy, DraftSampling::kRejection, DraftSampling::kBlock}) {
    TestModel alone(*backend_, GetParam(), options(1));
    TestModel model(*backend_, GetParam(), options(12));
    std::vector<RequestId> ids;
    std::vector<std::vector<int32_t>> expected;
    for (uint64_t i = 0; i < 16; ++i) {
      GenerationOptions wanted = sampled(static_cast<int64_t>(i % 6), i, drafts);
      if (i % 5 == 0) wanted.sampling = {};  // greedy among them
      expected.push_back(alone.generator().generate(prompt(24 + static_cast<int64_t>(i % 8)), wanted).output_token_ids);
      ids.push_back(model.generator().submit(prompt(24 + static_cast<int64_t>(i % 8)), wanted));
    }
    for (int64_t round = 0; model.generator().step(); ++round) {
      const RequestId victim = ids[static_cast<size_t>(round) % ids.size()];
      if (round % 3 == 0 && model.generator().is_decoding(victim)) model.generator().preempt(victim);
    }
    EXPECT_GT(model.generator().statistics().num_preemptions, 0);
    for (size_t i = 0; i < ids.size(); ++i) {
      EXPECT_EQ(model.generator().take_result(ids[i]).output_token_ids, expected[i]) << "request " << i;
    }
  }
}

// Field report 31: penalties that speculation left out without a word.
TEST_P(SampledEngineTest, PenaltiesAtTemperatureZeroGiveTheSameTextAtEveryDepth) {
  TestModel model(*backend_, GetParam(), options(1));
  GenerationOptions wanted{.max_tokens = 60, .num_speculative_tokens = 0};
  wanted.sampling.repetition_penalty = 1.3F;
  wanted.sampling.presence_penalty = 0.5F;
  wanted.sampling.min_tokens = 60;
  wanted.sampling.stop_token_ids = model.config().eos_token_ids;
  wanted.stop_token_ids = model.config().eos_token_ids;
  const GenerationResult plain = model.generator().generate(prompt(25), wanted);
  EXPECT_EQ(plain.output_token_ids.size(), 60U) << "the end token is forbidden before";
  EXPECT_NE(plain.output_token_ids, model.generate(prompt(25), 0, 60).output_token_ids) << "penalties do something";
  for (const int64_t depth : {1, 2, 5}) {
    wanted.num_speculative_tokens = depth;
    EXPECT_EQ(model.generator().generate(prompt(25), wanted).output_token_ids, plain.output_token_ids) << "depth " << depth;
  }
}

/// A grammar that starts and ends inside blocks: after the fifth token only even ids, after the twentieth anything.
TEST_P(SampledEngineTest, TokenMasksFollowTheDraftsOfABlock) {
  TestModel model(*backend_, GetParam(), options(1));
  GenerationOptions wanted{.max_tokens = 40, .num_speculative_tokens = 0};
  wanted.sampling.token_mask = [](std::span<const int32_t> output, std::span<uint32_t> allowed) {
    if (output.size() < 5 || output.size() >= 20) return false;
    std::ranges::fill(allowed, 0x55555555U);
    return true;
  };
  const GenerationResult plain = model.generator().generate(prompt(25), wanted);
  for (size_t i = 5; i < 20; ++i) EXPECT_EQ(plain.output_token_ids[i] % 2, 0);
  for (const int64_t depth : {1, 3, 5}) {
    wanted.num_speculative_tokens = depth;
    const GenerationResult result = model.generator().generate(prompt(25), wanted);
    EXPECT_EQ(result.output_token_ids, plain.output_token_ids) << "depth " << depth;
  }
}

TEST_P(SampledEngineTest, SeedsMatterAndAreReproducible) {
  TestModel model(*backend_, GetParam(), options(1));
  std::set<std::vector<int32_t>> texts;
  for (uint64_t seed = 0; seed < 5; ++seed) {
    const auto text = model.generator().generate(prompt(25), sampled(3, seed)).output_token_ids;
    EXPECT_EQ(model.generator().generate(prompt(25), sampled(3, seed)).output_token_ids, text);
    texts.insert(text);
  }
  EXPECT_GT(texts.size(), 3U);
}

TEST_P(SampledEngineTest, BadParametersAndMissingSamplersAreRefused) {
  TestModel model(*backend_, GetParam(), options(1));
  GenerationOptions hot = sampled(0, 1);
  hot.sampling.temperature = -1.0F;
  EXPECT_THROW(model.generator().submit(prompt(25), hot), Error);
  TestModelOptions greedy_only = options(1);
  greedy_only.sampling.reset();
  TestModel without(*backend_, GetParam(), greedy_only);
  EXPECT_THROW(without.generator().submit(prompt(25), sampled(0, 1)), Error);
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, SampledEngineTest, ::testing::Values("tiny-dense", "tiny-moe"),
                         [](const auto& instance) { return instance.param == "tiny-dense" ? "TinyDense" : "TinyMoe"; });

}  // namespace
}  // namespace foretoken::test
