// What is measured of rounds before the first text: every depth, and nothing of it stays behind.
#include "speculative/cost_measurement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "speculative/engine.h"
#include "test_model.h"
#include "tests/support/golden.h"

namespace foretoken::test {
namespace {

/// Takes costs down.
class Listener final : public DepthPolicy {
 public:
  explicit Listener(int64_t max_drafts) : max_drafts_(max_drafts) {}
  [[nodiscard]] int64_t max_drafts() const override { return max_drafts_; }
  [[nodiscard]] std::vector<int64_t> depths(std::span<const ActiveSequence> sequences) override {
    return std::vector<int64_t>(sequences.size(), 0);
  }
  void observe(const RoundReport& /*report*/) override {}
  void learn_cost(int64_t num_sequences, int64_t num_drafts, const RoundTime& time) override {
    EXPECT_EQ(num_sequences, expected_sequences);
    times[num_drafts].push_back(time);
  }

  int64_t expected_sequences = 1;
  std::map<int64_t, std::vector<RoundTime>> times;

 private:
  int64_t max_drafts_;
};

GenerationParts parts_of(TestModel& model) {
  return {.backend = &model.backend(), .stream = &model.stream(), .runner = &model.runner(), .proposer = &model.proposer()};
}

class CostMeasurement : public testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<GpuBackend> device_ = open_test_device();
  std::vector<int32_t> prompt_ = Golden(GetParam() + ".golden.safetensors").i32("prompt_25");
};

TEST_P(CostMeasurement, TimesEveryDepth) {
  TestModel model(*device_, GetParam(), {.max_drafts = 5, .max_sequences = 3});
  for (const int64_t sequences : {1, 3}) {
    Listener listener(5);
    listener.expected_sequences = sequences;
    // A busy machine may have no time for more than one depth.
    for (int i = 0; i < 50 && !listener.times.contains(5); ++i) measure_round_costs(parts_of(model), sequences, listener);
    EXPECT_TRUE(listener.times.contains(0));
    EXPECT_TRUE(listener.times.contains(5)) << "the deepest comes second";
    for (const auto& [depth, times] : listener.times) {
      for (const RoundTime& time : times) {
        EXPECT_EQ(time.draft_us > 0.0, depth > 0) << depth << " drafts";
        EXPECT_GT(time.verify_us, 0.0) << depth << " drafts";
      }
    }
  }
}

TEST_P(CostMeasurement, LeavesNothingBehind) {
  const TestModelOptions options{.max_drafts = 5, .max_sequences = 3};
  TestModel fresh(*device_, GetParam(), options);
  TestModel measured(*device_, GetParam(), options);
  const int32_t blocks = measured.runner().kv_cache().pool().num_free();
  const int32_t draft_blocks = measured.proposer().kv_cache().pool().num_free();
  Listener listener(5);
  measure_round_costs(parts_of(measured), 1, listener);
  listener.expected_sequences = 3;
  measure_round_costs(parts_of(measured), 3, listener);
  EXPECT_EQ(measured.runner().kv_cache().pool().num_free(), blocks);
  EXPECT_EQ(measured.proposer().kv_cache().pool().num_free(), draft_blocks);
  for (const int64_t depth : {0, 3}) {
    const GenerationResult expected = fresh.generate(prompt_, depth);
    const GenerationResult got = measured.generate(prompt_, depth);
    EXPECT_EQ(got.output_token_ids, expected.output_token_ids);
    EXPECT_EQ(got.speculation.accepted_per_round, expected.speculation.accepted_per_round);
  }
}

TEST_P(CostMeasurement, LeavesOutWhatCachesHaveNoRoomFor) {
  TestModel model(*device_, GetParam(), {.max_seq_len = 8, .max_drafts = 5, .max_sequences = 2, .num_kv_blocks = 1});
  Listener listener(5);
  measure_round_costs(parts_of(model), 1, listener);
  EXPECT_TRUE(listener.times.contains(0));
  EXPECT_FALSE(listener.times.contains(5)) << "9 positions";
  listener.expected_sequences = 2;
  listener.times.clear();
  measure_round_costs(parts_of(model), 2, listener);
  EXPECT_TRUE(listener.times.empty()) << "one block for two sequences";
}

TEST_P(CostMeasurement, LeavesChainsThatEndByThemselvesToTheTexts) {
  TestModel model(*device_, GetParam(), {.max_drafts = 3, .confidence_stop = 0.5});
  Listener listener(3);
  measure_round_costs(parts_of(model), 1, listener);
  EXPECT_TRUE(listener.times.empty());
}

TEST_P(CostMeasurement, AnEngineOfAdaptiveDepthDecodesThePlainText) {
  const auto text = [this](bool is_auto, int64_t drafts) {
    EngineOptions options;
    options.model = data_path(GetParam()).string();
    options.num_threads = 2;
    options.max_speculative_tokens = 7;
    options.max_sequences = 2;
    if (is_auto) options.depth_policy = parse_depth_policy("auto", 7);
    Engine engine(options);
    engine.load(static_cast<int64_t>(prompt_.size()), 64);
    return engine.generator().generate(prompt_, {.max_tokens = 64, .num_speculative_tokens = drafts}).output_token_ids;
  };
  EXPECT_EQ(text(true, 7), text(false, 0));
}

INSTANTIATE_TEST_SUITE_P(Models, CostMeasurement, testing::Values("tiny-dense", "tiny-moe"),
                         [](const auto& model) { return model.param == "tiny-dense" ? "Dense" : "Moe"; });

}  // namespace
}  // namespace foretoken::test
