// Optional kernels that a device lacks: the slower way gives the same text, and speculation still changes nothing.
#include <gmock/gmock.h>

#include "gated_cpu.h"
#include "speculative/draft_precision.h"
#include "tests/support/golden.h"

namespace foretoken::test {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kPrompts[] = {0, 25, 31};

class FallbackTest : public ::testing::TestWithParam<std::string> {
 protected:
  /// Every depth gives the golden text, with target logits equal to plain ones bit for bit.
  void expect_golden_text(GpuBackend& backend) const {
    TestModel model(backend, GetParam(), {.prefill_chunk = 16, .self_check = true});
    for (const int64_t i : kPrompts) {
      const std::vector<int32_t> prompt = golden_.i32("prompt_" + std::to_string(i));
      for (const int64_t depth : {0, 1, 2, 3, 7, 15}) {
        const GenerationResult result = model.generate(prompt, depth, 32);
        std::vector<int32_t> expected = golden_.i32("greedy_" + std::to_string(i));
        expected.resize(std::min<size_t>(expected.size(), 32));
        EXPECT_EQ(result.output_token_ids, expected) << "prompt " << i << ", depth " << depth;
        EXPECT_EQ(result.self_check.rows_different, 0);
      }
    }
  }
  /// Text and accepted drafts at depth 3.
  [[nodiscard]] GenerationResult generate(GpuBackend& backend) const {
    TestModel model(backend, GetParam());
    return model.generate(golden_.i32("prompt_30"), 3);
  }

  Golden golden_{GetParam() + ".golden.safetensors"};
};

TEST_P(FallbackTest, ATokenMapNeedsAFusedLmHead) {
  const auto backend = gated_cpu(without_fused_argmax(WeightFormat::kBF16));
  TestModel model(*backend, GetParam());
  const LoadedModel& loaded = model.loaded();
  const auto head_of = [&](std::span<const int32_t> vocab) {
    const DraftHead head = make_draft_head(*backend, model.stream(), loaded.drafter(), {}, vocab);
    const MtpHead made(*backend, loaded.config, head.weights, loaded.target.embed_tokens, head.lm_head,
                       {.max_seq_len = 64, .token_map = head.token_map});
  };
  EXPECT_NO_THROW(head_of(std::vector<int32_t>{0, 1, 2})) << "the first tokens need no map";
  EXPECT_THAT(refusal_of([&] { head_of(std::vector<int32_t>{0, 2}); }), HasSubstr("no kernel for bf16 weights"));
}

TEST_P(FallbackTest, WithoutAFusedLmHeadPicksComeFromLogits) {
  const auto backend = gated_cpu(without_fused_argmax(WeightFormat::kBF16));
  TestModel model(*backend, GetParam(), {.log_probabilities = true});
  for (const Availability& fused : {model.runner().model().fused_pick(), model.proposer().head().fused_draft()}) {
    EXPECT_FALSE(fused);
    EXPECT_THAT(fused.reason(), HasSubstr("no kernel for bf16 weights"));
  }
  EXPECT_TRUE(model.proposer().log_probabilities().is_absent());
  EXPECT_TRUE(model.runner().logits()) << "picks need logits";
  expect_golden_text(*backend);
}

TEST_P(FallbackTest, WithAFusedLmHeadNoLogitsAreWritten) {
  const auto backend = gated_cpu({});
  TestModel model(*backend, GetParam(), {.log_probabilities = true});
  EXPECT_TRUE(model.runner().model().fused_pick());
  EXPECT_TRUE(model.proposer().head().fused_draft());
  EXPECT_TRUE(model.proposer().log_probabilities());
  EXPECT_TRUE(model.runner().logits().is_absent());
}

TEST_P(FallbackTest, KernelsForOneRowRunRowByRow) {
  const auto backend = gated_cpu({.one_row_only = {WeightFormat::kBF16}, .row_by_row = true});
  expect_golden_text(*backend);
}

TEST_P(FallbackTest, DraftsAreTheSameEitherWay) {
  const auto cpu = open_cpu();
  const GenerationResult expected = generate(*cpu);
  for (const Gate& gate :
       {without_fused_argmax(WeightFormat::kBF16), Gate{.one_row_only = {WeightFormat::kBF16}, .row_by_row = true}}) {
    const auto backend = gated_cpu(gate);
    const GenerationResult result = generate(*backend);
    EXPECT_EQ(result.output_token_ids, expected.output_token_ids);
    EXPECT_EQ(result.speculation.rounds(), expected.speculation.rounds());
    EXPECT_EQ(result.speculation.acceptance_by_position(3), expected.speculation.acceptance_by_position(3));
  }
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, FallbackTest, ::testing::Values("tiny-dense", "tiny-moe"),
                         [](const auto& instance) { return instance.param == "tiny-dense" ? "TinyDense" : "TinyMoe"; });

}  // namespace
}  // namespace foretoken::test
