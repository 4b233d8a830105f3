// FP8 KV caches of target and drafter on the bundled checkpoints: exact speculation, little lost, half the memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "models/kv_scales.h"
#include "speculative/acceptance.h"
#include "tests/integration/generation/test_model.h"
#include "tests/support/golden.h"

namespace foretoken::test {
namespace {

constexpr int64_t kNumPrompts = 34;
constexpr float kClearMargin = 1.0F;   // of the golden logits: FP8 turns none round
constexpr float kUsualMargin = 0.25F;  // FP8 turns few round

class KvDtypeTest : public ::testing::TestWithParam<std::string> {
 protected:
  [[nodiscard]] std::vector<int32_t> prompt(int64_t i) const { return golden_.i32("prompt_" + std::to_string(i)); }
  [[nodiscard]] std::vector<int32_t> greedy(int64_t i) const { return golden_.i32("greedy_" + std::to_string(i)); }
  [[nodiscard]] std::vector<uint8_t> codes_of(TestModel& model, const Tensor& side) const {
    std::vector<uint8_t> codes(side.bytes());
    model.stream().download(side.view(), std::as_writable_bytes(std::span(codes)));
    return codes;
  }

  std::unique_ptr<GpuBackend> backend_ = open_cpu();
  Golden golden_{GetParam() + ".golden.safetensors"};
};

/// The logits of every committed row have the bits of plain one-row steps over a cache of the same dtype.
TEST_P(KvDtypeTest, EveryDepthGivesTheSameIdsAndLogits) {
  struct Caches {
    DType target;
    DType drafter;
  };
  for (const Caches& caches :
       {Caches{DType::kE4M3, DType::kBF16}, Caches{DType::kBF16, DType::kE4M3}, Caches{DType::kE4M3, DType::kE4M3}}) {
    TestModel model(*backend_, GetParam(),
                    {.cache_dtype = caches.target, .draft_cache_dtype = caches.drafter, .max_seq_len = 800, .self_check = true});
    for (const int64_t i : {1, 30}) {
      const std::vector<int32_t> plain = model.generate(prompt(i), 0).output_token_ids;
      for (int64_t depth = 1; depth <= 15; ++depth) {
        const GenerationResult result = model.generate(prompt(i), depth);
        const std::string what = "target " + std::string(to_string(caches.target)) + ", drafter " +
                                 std::string(to_string(caches.drafter)) + ", prompt " + std::to_string(i) + ", depth " +
                                 std::to_string(depth);
        EXPECT_EQ(result.output_token_ids, plain) << what;
        EXPECT_GE(result.self_check.rows_checked, static_cast<int64_t>(plain.size()) - 1) << what;
        EXPECT_EQ(result.self_check.rows_different, 0) << what << ", first at token " << result.self_check.first_difference;
      }
    }
  }
}

/// With the golden ids forced as context, so one difference does not spoil the rest of a text.
TEST_P(KvDtypeTest, GoldenIdsWhereTheMarginIsClear) {
  TestModel model(*backend_, GetParam(), {.cache_dtype = DType::kE4M3});
  int64_t clear = 0;
  int64_t usual = 0;
  int64_t usual_lost = 0;
  for (int64_t i = 0; i < kNumPrompts; ++i) {
    const std::vector<int32_t> expected = greedy(i);
    const std::vector<float> margins = golden_.f32("margin_" + std::to_string(i));
    TargetSequence sequence = model.runner().create_sequence(static_cast<int64_t>(prompt(i).size() + expected.size()));
    model.runner().prefill(sequence, prompt(i), nullptr);
    for (size_t step = 0; step < expected.size(); ++step) {
      if (step > 0) model.runner().decode(sequence, expected[step - 1]);
      const bool agrees = model.runner().read_picks(1)[0] == expected[step];
      if (margins[step] < kUsualMargin) continue;
      ++usual;
      usual_lost += agrees ? 0 : 1;
      if (margins[step] < kClearMargin) continue;
      ++clear;
      EXPECT_TRUE(agrees) << "prompt " << i << ", step " << step << ", margin " << margins[step];
    }
  }
  EXPECT_GT(clear, 500) << "the margin leaves too little to compare";
  EXPECT_LE(usual_lost * 100, usual) << usual_lost << " of " << usual;
}

TEST_P(KvDtypeTest, TheDraftersCacheAloneHardlyChangesAcceptance) {
  TestModel model(*backend_, GetParam(), {.cache_dtype = DType::kBF16});
  MetadataBuffer round;
  MtpProposer coded(*backend_, model.config(), *model.loaded().mtp, model.loaded().target.embed_tokens,
                    model.loaded().target.lm_head, {.max_seq_len = 3400, .cache_dtype = DType::kE4M3}, round);
  round.allocate(*backend_);
  std::array<MeasuredProposer, 2> measured{MeasuredProposer{&model.proposer()}, MeasuredProposer{&coded}};
  for (int64_t i = 0; i < kNumPrompts; ++i) {
    static_cast<void>(measure_prefix_acceptance(model.stream(), model.runner(), measured, prompt(i),
                                                {.max_tokens = 64, .stop_token_ids = model.config().eos_token_ids}));
  }
  for (int64_t position = 1; position <= PrefixAcceptance::kPositions; ++position) {
    const double half = measured[0].acceptance.share(position), fp8 = measured[1].acceptance.share(position);
    EXPECT_GE(fp8, half - 0.02) << "position " << position;
  }
}

/// The bounds behind the scales hold, and are not so loose that codes of usual values lose bits.
TEST_P(KvDtypeTest, CodesOfATextNeverSaturateAndAreRarelySubnormal) {
  TestModel model(*backend_, GetParam(), {.cache_dtype = DType::kE4M3, .max_seq_len = 800});
  static_cast<void>(model.generate(prompt(30), 3));
  const int64_t positions = static_cast<int64_t>(prompt(30).size());
  std::vector<PagedKvView> views{model.proposer().kv_cache().layer(0)};
  for (int64_t layer = 0; layer < model.runner().kv_cache().config().num_layers; ++layer) {
    views.push_back(model.runner().kv_cache().layer(layer));
  }
  for (const PagedKvView& view : views) {
    for (const Tensor& side : {view.k_cache, view.v_cache}) {
      // The first sequence of a fresh pool has the blocks 0, 1, ... in order.
      const std::vector<uint8_t> codes = codes_of(model, side);
      const auto count = static_cast<size_t>(positions * side.dim(2) * side.dim(3));
      int64_t subnormal = 0;
      uint8_t largest = 0;
      for (size_t i = 0; i < count; ++i) {
        const uint8_t magnitude = codes[i] & 0x7fU;
        largest = std::max(largest, magnitude);
        subnormal += magnitude < 0x08 ? 1 : 0;
      }
      EXPECT_LT(largest, 0x7e);
      EXPECT_LT(static_cast<double>(subnormal) / static_cast<double>(count), 0.01);
    }
  }
}

TEST_P(KvDtypeTest, Fp8TakesHalfTheMemoryOfBf16) {
  TestModel half(*backend_, GetParam(), {.cache_dtype = DType::kBF16, .max_seq_len = 800});
  TestModel fp8(*backend_, GetParam(), {.cache_dtype = DType::kE4M3, .max_seq_len = 800});
  const auto saved = [](size_t before, size_t after) {
    return static_cast<double>(before - after) / static_cast<double>(before);
  };
  EXPECT_NEAR(saved(half.runner().kv_cache().bytes(), fp8.runner().kv_cache().bytes()), 0.5, 1e-3);
  EXPECT_NEAR(saved(half.proposer().kv_cache().bytes(), fp8.proposer().kv_cache().bytes()), 0.5, 1e-3);
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, KvDtypeTest, ::testing::Values("tiny-dense", "tiny-moe"),
                         [](const auto& instance) { return instance.param == "tiny-dense" ? "TinyDense" : "TinyMoe"; });

}  // namespace
}  // namespace foretoken::test
