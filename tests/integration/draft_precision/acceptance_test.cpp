// What a narrower head costs in acceptance, on the golden prompts.
#include "speculative/acceptance.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "converted_head.h"
#include "tests/support/golden.h"

namespace foretoken::test {
namespace {

constexpr int64_t kNumPrompts = 34;

struct Bound {
  const char* name;
  DraftFormats formats;
  double near;  // positions 1 .. 3
  double far;   // positions 4 and 5
};

std::vector<Bound> bounds() {
  DraftFormats nvfp4_head = all_in(WeightFormat::kNvfp4);
  nvfp4_head.lm_head = WeightFormat::kFp8Block;
  return {{"fp8-block", all_in(WeightFormat::kFp8Block), 0.01, 0.02},
          {"fp8-row", all_in(WeightFormat::kFp8Row), 0.02, 0.035},
          {"nvfp4 with an LM head in fp8-block", nvfp4_head, 0.035, 0.06},
          {"nvfp4", all_in(WeightFormat::kNvfp4), 0.035, 0.06}};
}

class AcceptanceTest : public ::testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<GpuBackend> backend_ = open_cpu();
  Golden golden_{GetParam() + ".golden.safetensors"};
};

TEST_P(AcceptanceTest, LossOfANarrowHeadAndLmHeadIsBounded) {
  const TestModelOptions options{.max_drafts = PrefixAcceptance::kPositions};
  TestModel model(*backend_, GetParam(), options);
  std::vector<std::unique_ptr<ConvertedHead>> heads;
  std::vector<MeasuredProposer> measured{{.proposer = &model.proposer()}};
  const std::vector<Bound> all = bounds();
  for (const Bound& bound : all) {
    heads.push_back(std::make_unique<ConvertedHead>(model, bound.formats, options));
    measured.push_back({.proposer = &heads.back()->proposer()});
  }
  for (int64_t i = 0; i < kNumPrompts; ++i) {
    const std::string index = std::to_string(i);
    const auto text = measure_prefix_acceptance(model.stream(), model.runner(), measured, golden_.i32("prompt_" + index),
                                                {.max_tokens = 64, .stop_token_ids = model.config().eos_token_ids});
    EXPECT_EQ(text, golden_.i32("greedy_" + index)) << "prompt " << i;
  }

  std::ifstream file(data_path("golden/" + GetParam() + ".json"));
  const nlohmann::json expected = nlohmann::json::parse(file);
  const PrefixAcceptance& checkpoint = measured.front().acceptance;
  EXPECT_EQ(checkpoint.starts, expected["positions"].get<int64_t>());
  for (int64_t j = 1; j <= PrefixAcceptance::kPositions; ++j) {
    EXPECT_NEAR(checkpoint.share(j), expected["prefix_acceptance_postnorm"][static_cast<size_t>(j - 1)].get<double>(), 0.002)
        << j;
  }
  for (size_t i = 0; i < all.size(); ++i) {
    const PrefixAcceptance& narrow = measured[i + 1].acceptance;
    EXPECT_NE(narrow.accepted, checkpoint.accepted) << "nothing was converted";
    for (int64_t j = 1; j <= PrefixAcceptance::kPositions; ++j) {
      const double loss = checkpoint.share(j) - narrow.share(j);
      EXPECT_LE(loss, j <= 3 ? all[i].near : all[i].far) << all[i].name << ", position " << j;
    }
  }
}

TEST_P(AcceptanceTest, ProposersOfFewDraftsAreRefused) {
  TestModel model(*backend_, GetParam(), {.max_seq_len = 64, .max_drafts = 4});
  std::vector<MeasuredProposer> measured{{.proposer = &model.proposer()}};
  EXPECT_THROW(measure_prefix_acceptance(model.stream(), model.runner(), measured, golden_.i32("prompt_0"), {.max_tokens = 8}),
               Error);
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, AcceptanceTest, ::testing::Values("tiny-dense", "tiny-moe"),
                         [](const auto& instance) { return instance.param == "tiny-dense" ? "TinyDense" : "TinyMoe"; });

}  // namespace
}  // namespace foretoken::test
