// BF16 activations on the device that FORETOKEN_TEST_BACKEND selects: golden ids, drafts and acceptance where the margin is
// clear, and exactness without any exception.
#include <gmock/gmock.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "converted_head.h"
#include "core/fault.h"
#include "golden_drafts.h"
#include "golden_texts.h"
#include "speculative/engine.h"
#include "tests/support/golden.h"

namespace foretoken::test {
namespace {

constexpr int64_t kNumPrompts = 34;
constexpr float kClearMargin = 0.15F;

bool has_bf16(const GpuBackend& backend) {
  return std::ranges::find(backend.capabilities().activation_dtypes, DType::kBF16) !=
         backend.capabilities().activation_dtypes.end();
}

class Bf16DeviceTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!has_bf16(*backend_)) GTEST_SKIP() << backend_->capabilities().device_name << " takes no BF16 activations";
  }
  ~Bf16DeviceTest() override { fault::inject(Fault::kNone); }

  /// As users have it: prefill on matrix hardware, BF16 cache.
  [[nodiscard]] static TestModelOptions options() {
    return {.cache_dtype = DType::kBF16, .prefill_precision = LinearPrecision::kBF16, .activation_dtype = DType::kBF16};
  }
  [[nodiscard]] std::vector<int32_t> prompt(int64_t i) const { return golden_.i32("prompt_" + std::to_string(i)); }
  [[nodiscard]] std::vector<int32_t> greedy(int64_t i) const { return golden_.i32("greedy_" + std::to_string(i)); }

  std::unique_ptr<GpuBackend> backend_ = open_test_device();
  Golden golden_{GetParam() + ".golden.safetensors"};
};

TEST_P(Bf16DeviceTest, LinearInputsAndQueriesAreBf16AndTheRestIsF32) {
  TestModel model(*backend_, GetParam(), options());
  const MtpHead& head = model.proposer().head();
  const LayerScratch& scratch = head.scratch();
  for (const Tensor* tensor : {&scratch.input_norm, &scratch.q, &scratch.post_norm, &scratch.attention, &head.joined(),
                               &head.hidden(), &model.runner().model().hidden()}) {
    EXPECT_EQ(tensor->dtype(), DType::kBF16);
  }
  for (const Tensor* tensor :
       {&scratch.mixed, &scratch.ffn, &scratch.q_gate, &head.residual(), &model.runner().model().residual()}) {
    EXPECT_EQ(tensor->dtype(), DType::kF32);
  }
}

TEST_P(Bf16DeviceTest, ClearPicksAndAcceptanceAlongTheGoldenTextsAreGolden) {
  TestModel model(*backend_, GetParam(), options());
  std::ifstream file(data_path("golden/" + GetParam() + ".json"));
  const nlohmann::json expected = nlohmann::json::parse(file);
  std::array<int64_t, kGoldenDepth> accepted{};
  std::array<int64_t, kGoldenDepth> rounds{};
  for (int64_t i = 0; i < kNumPrompts; ++i) {
    const std::vector<int32_t> text = greedy(i);
    const std::vector<float> margins = golden_.f32("margin_" + std::to_string(i));
    const GoldenWalk walk = walk_along(model, prompt(i), text);
    for (size_t step = 0; step < text.size(); ++step) {
      if (margins[step] < kClearMargin) continue;
      EXPECT_EQ(walk.picks[step], text[step]) << "prompt " << i << ", step " << step;
    }
    for (int64_t depth = 1; depth <= kGoldenDepth; ++depth) {
      for (const int64_t held : accepted_per_round(text, walk.drafts, depth)) {
        accepted[static_cast<size_t>(depth - 1)] += held;
        ++rounds[static_cast<size_t>(depth - 1)];
      }
    }
  }
  for (size_t i = 0; i < rounds.size(); ++i) {
    const double golden = expected["mean_accepted_per_round"][std::to_string(i + 1)].get<double>();
    EXPECT_NEAR(static_cast<double>(accepted[i]) / static_cast<double>(rounds[i]), golden, 0.02) << "depth " << i + 1;
  }
}

/// Equal up to the first draft whose stored margin is small.
TEST_P(Bf16DeviceTest, ClearDraftsAreGolden) {
  TestModel model(*backend_, GetParam(), options());
  size_t compared = 0;
  for (int64_t i = 0; i < kNumPrompts; ++i) {
    const std::string index = std::to_string(i);
    if (!golden_.has("drafts_" + index)) continue;
    const std::vector<int32_t> expected = golden_.i32("drafts_" + index);
    const std::vector<float> margins = golden_.f32("draft_margins_" + index);
    const Drafted drafted = draft_after(model, prompt(i), 8);
    for (size_t j = 0; j < expected.size() && margins[j] >= kClearMargin; ++j, ++compared) {
      ASSERT_EQ(drafted.token_ids[j], expected[j]) << "prompt " << i << ", draft " << j;
    }
  }
  EXPECT_GT(compared, 20U);
}

/// The self-check compares the logits of every committed row with plain one-row steps, bit for bit.
TEST_P(Bf16DeviceTest, EveryDepthGivesTheSameIdsAndLogits) {
  TestModelOptions checked = options();
  checked.self_check = true;
  TestModel model(*backend_, GetParam(), checked);
  for (const int64_t i : {0, 1, 2, 3, 25, 28, 30, 32}) {
    const std::vector<int32_t> plain = model.generate(prompt(i), 0).output_token_ids;
    for (int64_t depth = 1; depth <= 15; ++depth) {
      const GenerationResult result = model.generate(prompt(i), depth);
      EXPECT_EQ(result.output_token_ids, plain) << "prompt " << i << ", depth " << depth;
      EXPECT_GE(result.self_check.rows_checked, static_cast<int64_t>(plain.size()) - 1);
      EXPECT_EQ(result.self_check.rows_different, 0) << "prompt " << i << ", depth " << depth;
    }
  }
}

TEST_P(Bf16DeviceTest, ForcedAcceptCountsAndPausesChangeNothing) {
  TestModelOptions forced = options();
  forced.self_check = true;
  TestModel model(*backend_, GetParam(), forced);
  GenerationOptions options{.max_tokens = 100, .num_speculative_tokens = 0};
  const std::vector<int32_t> plain = model.generator().generate(prompt(30), options).output_token_ids;
  options.num_speculative_tokens = 6;
  options.depth_pattern = {6, 0, 0, 3, 1, 0, 6};
  options.forced = {.pattern = {0, 2, 6, 1}, .continuation = plain};
  const GenerationResult result = model.generator().generate(prompt(30), options);
  EXPECT_EQ(result.output_token_ids, plain);
  EXPECT_EQ(result.self_check.rows_different, 0);
}

TEST_P(Bf16DeviceTest, EveryPrecisionOfTheHeadGivesThePlainText) {
  const TestModelOptions model_options = options();
  TestModel model(*backend_, GetParam(), model_options);
  for (const WeightFormat format : {WeightFormat::kBF16, WeightFormat::kFp8Row, WeightFormat::kFp8Block, WeightFormat::kNvfp4}) {
    ConvertedHead head(model, all_in(format), model_options);
    GenerationEngine generator(
        {.backend = backend_.get(), .stream = &model.stream(), .runner = &model.runner(), .proposer = &head.proposer()});
    for (const int64_t i : {1, 25}) {
      const std::vector<int32_t> plain = model.generate(prompt(i), 0).output_token_ids;
      int64_t accepted = 0;
      for (const int64_t depth : {1, 2, 3, 7, 15}) {
        const GenerationResult result = generator.generate(
            prompt(i), {.max_tokens = 64, .num_speculative_tokens = depth, .stop_token_ids = model.config().eos_token_ids});
        EXPECT_EQ(result.output_token_ids, plain) << to_string(format) << ", prompt " << i << ", depth " << depth;
        accepted += result.speculation.accepted();
      }
      EXPECT_GT(accepted, 0) << to_string(format);
    }
  }
}

TEST_P(Bf16DeviceTest, ExactPrefillInChunksGivesTheSameHiddenStates) {
  std::vector<float> expected;
  for (const int64_t chunk : {64, 7, 1}) {
    TestModelOptions chunked = options();
    chunked.prefill_precision = LinearPrecision::kExact;
    chunked.prefill_chunk = chunk;
    TestModel model(*backend_, GetParam(), chunked);
    TargetSequence sequence = model.runner().create_sequence(64);
    const std::vector<int32_t> ids = prompt(25);
    model.runner().prefill(sequence, ids, nullptr);
    const std::vector<float> hidden = model.read(model.runner().model().hidden().rows(0, 1));
    if (expected.empty()) expected = hidden;
    EXPECT_EQ(hidden, expected) << "chunk " << chunk;
  }
}

#ifdef FORETOKEN_FAULTS
TEST_P(Bf16DeviceTest, OneUlpInAVerifyRowIsCaughtByTheLogits) {
  fault::inject(Fault::kVerifyUlp);
  TestModelOptions checked = options();
  checked.self_check = true;
  TestModel model(*backend_, GetParam(), checked);
  EXPECT_GT(model.generate(prompt(25), 4).self_check.rows_different, 0);
}
#endif

INSTANTIATE_TEST_SUITE_P(Checkpoints, Bf16DeviceTest, ::testing::Values("tiny-dense", "tiny-moe"),
                         [](const auto& instance) { return instance.param == "tiny-dense" ? "TinyDense" : "TinyMoe"; });

/// The measure itself: with float32 activations it gives the reference's picks and counts.
TEST(GoldenTexts, AlongThemFloat32ActivationsGiveTheReferencesPicksAndRounds) {
  const auto backend = open_test_device();
  const Golden golden("tiny-moe.golden.safetensors");
  std::ifstream file(data_path("golden/tiny-moe.json"));
  const nlohmann::json expected = nlohmann::json::parse(file);
  TestModel model(*backend, "tiny-moe");
  for (const size_t i : {0U, 3U, 25U, 31U}) {
    const std::string index = std::to_string(i);
    const std::vector<int32_t> text = golden.i32("greedy_" + index);
    const GoldenWalk walk = walk_along(model, golden.i32("prompt_" + index), text);
    EXPECT_EQ(walk.picks, text) << "prompt " << i;
    for (int64_t depth = 1; depth <= kGoldenDepth; ++depth) {
      const auto rounds = expected["prompts"][i]["accepted_per_round"][std::to_string(depth)].get<std::vector<int64_t>>();
      EXPECT_EQ(accepted_per_round(text, walk.drafts, depth), rounds) << "prompt " << i << ", depth " << depth;
    }
  }
}

EngineOptions engine_options(const std::string& backend) {
  EngineOptions options;
  options.model = data_path("tiny-dense");
  options.backend = backend;
  return options;
}

TEST(EngineActivations, TheDevicesBestIsANoteWhereThereIsAChoice) {
  const auto backend = open_test_device();
  const char* selected = std::getenv("FORETOKEN_TEST_BACKEND");
  const Engine engine(engine_options(selected == nullptr ? "cpu" : selected));
  EXPECT_EQ(engine.activation_dtype(), backend->capabilities().activation_dtypes.front());
  const auto note = ::testing::Contains(::testing::HasSubstr("activations, which this device is fastest with"));
  if (backend->capabilities().activation_dtypes.size() > 1) {
    EXPECT_THAT(engine.notes(), note);
  } else {
    EXPECT_THAT(engine.notes(), ::testing::Not(note));
  }
}

TEST(EngineActivations, WhatTheDeviceLacksIsRefusedWithWhatItHas) {
  EngineOptions options = engine_options("cpu");
  options.activation_dtype = DType::kBF16;
  try {
    const Engine engine(options);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    EXPECT_THAT(error.what(), ::testing::AllOf(::testing::HasSubstr("expected F32"), ::testing::HasSubstr("got BF16")));
  }
}

}  // namespace
}  // namespace foretoken::test
