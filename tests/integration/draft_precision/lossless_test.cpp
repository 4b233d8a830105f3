// The text is the target's own, whatever the draft head is made of.
#include <gtest/gtest.h>

#include "converted_head.h"
#include "tests/support/golden.h"

namespace foretoken::test {
namespace {

struct Case {
  const char* name;
  DraftFormats formats;
};

/// Every format of every part.
std::vector<Case> cases() {
  constexpr WeightFormat kRow = WeightFormat::kFp8Row;
  constexpr WeightFormat kBlock = WeightFormat::kFp8Block;
  constexpr WeightFormat kFp4 = WeightFormat::kNvfp4;
  return {{"bf16", all_in(WeightFormat::kBF16)},
          {"fp8-row", all_in(kRow)},
          {"fp8-block", all_in(kBlock)},
          {"nvfp4", all_in(kFp4)},
          {"fc fp8-block", {.fc = kBlock}},
          {"fc nvfp4", {.fc = kFp4}},
          {"experts nvfp4", {.experts = kFp4}},
          {"fp8 with experts in nvfp4", {.linears = kBlock, .fc = kBlock, .experts = kFp4, .lm_head = kFp4}},
          {"lm_head fp8-block", {.lm_head = kBlock}},
          {"lm_head nvfp4", {.lm_head = kFp4}}};
}

class LosslessTest : public ::testing::TestWithParam<std::string> {
 protected:
  [[nodiscard]] std::vector<int32_t> prompt(int64_t i) const { return golden_.i32("prompt_" + std::to_string(i)); }

  std::unique_ptr<GpuBackend> backend_ = open_cpu();
  Golden golden_{GetParam() + ".golden.safetensors"};
};

TEST_P(LosslessTest, EveryPrecisionOfEveryPartGivesThePlainText) {
  const TestModelOptions options{.cache_dtype = DType::kBF16, .max_seq_len = 256};
  TestModel model(*backend_, GetParam(), options);
  const std::vector<int64_t> prompts{1, 25};
  std::vector<std::vector<int32_t>> plain;
  for (const int64_t i : prompts) plain.push_back(model.generate(prompt(i), 0).output_token_ids);
  for (const auto& [name, formats] : cases()) {
    ConvertedHead head(model, formats, options);
    GenerationEngine generator(
        {.backend = backend_.get(), .stream = &model.stream(), .runner = &model.runner(), .proposer = &head.proposer()});
    int64_t accepted = 0;
    for (int64_t depth = 0; depth <= 15; ++depth) {
      for (size_t i = 0; i < prompts.size(); ++i) {
        const GenerationResult result = generator.generate(
            prompt(prompts[i]),
            {.max_tokens = 64, .num_speculative_tokens = depth, .stop_token_ids = model.config().eos_token_ids});
        EXPECT_EQ(result.output_token_ids, plain[i]) << name << ", prompt " << prompts[i] << ", depth " << depth;
        accepted += result.speculation.accepted();
      }
    }
    EXPECT_GT(accepted, 0) << name << " accepts nothing";
  }
}

/// Prompt rows of every precision: one per token but the last, and the same bits in chunks, in one piece and row by row.
TEST_P(LosslessTest, EveryPrecisionTakesInThePromptsRows) {
  TestModel model(*backend_, GetParam());
  const std::vector<int32_t> ids = prompt(3);
  const auto known = static_cast<int64_t>(ids.size()) - 1;
  TargetSequence sequence = model.runner().create_sequence(static_cast<int64_t>(ids.size()));
  model.runner().prefill(sequence, ids, nullptr);
  const Tensor hidden = model.runner().model().hidden();  // of all rows but the first, which holds the last one's
  for (const auto& [name, formats] : cases()) {
    ConvertedHead head(model, formats);
    ASSERT_TRUE(supports_drafter_prefill(head.head().weights.layer.self_attn->q_proj.format));
    std::vector<std::vector<int32_t>> drafts;
    for (const int64_t step : {known, int64_t{4}, int64_t{1}}) {
      const auto state = head.proposer().alloc_state(64);
      for (int64_t row = 0; row < known; row += step) {
        const int64_t count = std::min(step, known - row);
        head.proposer().append_rows(model.stream(),
                                    std::span(ids).subspan(static_cast<size_t>(row + 1), static_cast<size_t>(count)),
                                    hidden.rows(row, count), LinearPrecision::kExact, *state);
      }
      EXPECT_EQ(head.proposer().num_rows(*state), known) << name;
      const Tensor block = propose_one(model.stream(), head.proposer(), model.runner().read_picks(1), hidden, 8, *state);
      model.stream().download(block.rows(1, 8).view(), std::as_writable_bytes(std::span(drafts.emplace_back(8))));
    }
    EXPECT_EQ(drafts[0], drafts[1]) << name;
    EXPECT_EQ(drafts[0], drafts[2]) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, LosslessTest, ::testing::Values("tiny-dense", "tiny-moe"),
                         [](const auto& instance) { return instance.param == "tiny-dense" ? "TinyDense" : "TinyMoe"; });

}  // namespace
}  // namespace foretoken::test
