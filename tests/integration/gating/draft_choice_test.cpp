// The formats of a draft head on devices that lack some: what `auto` picks and says, what is refused, and that a slower way gives
// the same drafts.
#include <gmock/gmock.h>

#include "gated_cpu.h"
#include "models/checkpoint.h"
#include "models/synth.h"
#include "models/weight_map.h"
#include "speculative/draft_precision.h"
#include "tests/support/golden.h"

namespace foretoken::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr WeightFormat kFp8 = WeightFormat::kFp8Block;
constexpr WeightFormat kNvfp4 = WeightFormat::kNvfp4;

DraftFormats choose(const GpuBackend& backend, const DraftPrecision& wanted) {
  const Checkpoint source(data_path("tiny-dense"));
  const ModelConfig config = load_model_config(data_path("tiny-dense"));
  return choose_draft_formats(backend, *plan_weights(source, config), wanted);
}

/// Of a model whose LM head is too large for caches.
DraftFormats choose_for_large(const GpuBackend& backend) {
  const SynthSource source(parse_synth_spec("synth:qwen3.5-0.8b:layers=1"));
  return choose_draft_formats(backend, *plan_weights(source, source.config()), {});
}

/// Text and rounds at depth 4 with a head in `formats`.
GenerationResult generate(GpuBackend& backend, const DraftFormats& formats) {
  TestModel model(backend, "tiny-dense");
  const DraftHead head = make_draft_head(backend, model.stream(), model.loaded().drafter(), formats);
  MetadataBuffer round;
  MtpProposer proposer(backend, model.config(), head.weights, model.loaded().target.embed_tokens, head.lm_head,
                       {.max_seq_len = 512, .cache_dtype = DType::kF32}, round);
  round.allocate(backend);
  GenerationEngine generator({.backend = &backend, .stream = &model.stream(), .runner = &model.runner(), .proposer = &proposer});
  const Golden golden("tiny-dense.golden.safetensors");
  return generator.generate(golden.i32("prompt_30"), {.max_tokens = 48, .num_speculative_tokens = 4});
}

void expect_same_rounds(const GenerationResult& got, const GenerationResult& expected) {
  EXPECT_EQ(got.output_token_ids, expected.output_token_ids);
  EXPECT_EQ(got.speculation.rounds(), expected.speculation.rounds());
  EXPECT_EQ(got.speculation.acceptance_by_position(4), expected.speculation.acceptance_by_position(4));
}

TEST(DraftChoice, AutoMakesAnFp8LmHeadWhereThatIsFast) {
  const auto backend = gated_cpu(without_nvfp4());
  EXPECT_EQ(choose_for_large(*backend).lm_head, kFp8);
  EXPECT_EQ(choose_for_large(*gated_cpu(fp8_only())).lm_head, kFp8);
  EXPECT_THAT(choose(*backend, {}).lm_head_reason, HasSubstr("small enough for caches"));
}

TEST(DraftChoice, AutoSharesTheLmHeadWhereFp8IsMissingAndSaysWhy) {
  for (const auto& [gate, reason] : {std::pair{Gate{.not_storable = {kFp8}}, "no unit for fp8-block"},
                                     std::pair{without_fused_argmax(kFp8), "no kernel for fp8-block weights"}}) {
    const DraftFormats formats = choose(*gated_cpu(gate), {});
    EXPECT_FALSE(formats.lm_head);
    EXPECT_THAT(formats.lm_head_reason, AllOf(HasSubstr("checkpoint's LM head"), HasSubstr(reason)));
  }
}

TEST(DraftChoice, WhatWasAskedForIsRefusedWithDeviceReasonAndUsableFormats) {
  const auto backend = gated_cpu(without_nvfp4());
  const DraftLmHead copy{.choice = DraftLmHead::Choice::kCopy, .format = kNvfp4};
  for (const DraftPrecision& wanted : {DraftPrecision{.linears = kNvfp4}, DraftPrecision{.fc = kNvfp4},
                                       DraftPrecision{.experts = kNvfp4}, DraftPrecision{.lm_head = copy}}) {
    EXPECT_THAT(refusal_of([&] { static_cast<void>(choose(*backend, wanted)); }),
                AllOf(HasSubstr("device without NVFP4"), HasSubstr("no unit for nvfp4"),
                      HasSubstr("expected f32, bf16, fp8-row, fp8-block"), HasSubstr("got nvfp4")));
  }
  const auto nothing = gated_cpu(stores_nothing());
  EXPECT_THAT(refusal_of([&] { static_cast<void>(choose(*nothing, {.linears = kFp8})); }),
              AllOf(HasSubstr("device for nothing"), HasSubstr("none: this device stores no weights")));
}

TEST(DraftChoice, ACopyThatWasAskedForDraftsFromLogitsWithoutAFusedKernel) {
  const DraftFormats formats{.lm_head = kFp8};
  const auto cpu = open_cpu();
  const auto gated = gated_cpu(without_fused_argmax(kFp8));
  expect_same_rounds(generate(*gated, formats), generate(*cpu, formats));
}

TEST(DraftChoice, Nvfp4KernelsForOneRowNeedRowByRowToTakeThePrompt) {
  const auto cpu = open_cpu();
  if (const Availability nvfp4 = cpu->capabilities().weight_format(kNvfp4).storable; !nvfp4) GTEST_SKIP() << nvfp4.reason();
  const DraftFormats all_nvfp4{.linears = kNvfp4, .lm_head = kNvfp4};
  Gate gate = nvfp4_one_row_only();
  const auto one_row = gated_cpu(gate);
  EXPECT_THAT(refusal_of([&] { static_cast<void>(generate(*one_row, all_nvfp4)); }),
              AllOf(HasSubstr("mtp head: "), HasSubstr("(nvfp4)"), HasSubstr("on device for one row of NVFP4"),
                    HasSubstr("nvfp4 weights take one row")));
  gate.row_by_row = true;
  const auto row_by_row = gated_cpu(gate);
  expect_same_rounds(generate(*row_by_row, all_nvfp4), generate(*cpu, all_nvfp4));
}

}  // namespace
}  // namespace foretoken::test
