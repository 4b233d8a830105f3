// The bundled checkpoints against values from float64 arithmetic: ids, hidden states, logits, the draft head's stages,
// acceptance.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "golden_drafts.h"
#include "test_model.h"
#include "tests/support/golden.h"

namespace foretoken::test {
namespace {

constexpr int64_t kNumPrompts = 34;
constexpr double kTolerance = 1e-3;
constexpr float kClearDraftMargin = 1e-3F;
constexpr float kClearMargin = 0.15F;

std::string indexed(const std::string& name, int64_t index) { return name + "_" + std::to_string(index); }

/// Prompts that have hidden states and drafts.
std::vector<int64_t> detailed_prompts() {
  std::vector<int64_t> prompts{0, 1, 2, 3};
  for (int64_t i = 24; i < kNumPrompts; ++i) prompts.push_back(i);
  return prompts;
}

class GoldenTest : public ::testing::TestWithParam<std::string> {
 protected:
  [[nodiscard]] TestModel make(const TestModelOptions& options = {}) { return TestModel(*backend_, GetParam(), options); }
  [[nodiscard]] std::vector<int32_t> prompt(int64_t i) const { return golden_.i32(indexed("prompt", i)); }
  [[nodiscard]] std::vector<int32_t> greedy(int64_t i) const { return golden_.i32(indexed("greedy", i)); }

  Drafted draft(TestModel& model, int64_t i, int64_t num_drafts) { return draft_after(model, prompt(i), num_drafts); }
  void expect_drafts(TestModel& model, int64_t i, const std::string& name);

  std::unique_ptr<GpuBackend> backend_ = open_test_device();
  Golden golden_{GetParam() + ".golden.safetensors"};
};

/// Equal up to the first draft whose stored margin is too small to tell.
void GoldenTest::expect_drafts(TestModel& model, int64_t i, const std::string& name) {
  const Drafted drafted = draft(model, i, 8);
  const std::vector<int32_t> expected = golden_.i32(indexed(name, i));
  const std::vector<float> margins = golden_.f32(indexed("draft_margins", i));
  const std::vector<float> logprobs = golden_.f32(indexed("draft_logprobs", i));
  for (size_t j = 0; j < expected.size() && margins[j] >= kClearDraftMargin; ++j) {
    ASSERT_EQ(drafted.token_ids[j], expected[j]) << "prompt " << i << ", draft " << j;
    if (name == "drafts") {
      EXPECT_NEAR(drafted.logprobs[j], logprobs[j], 1e-3) << "prompt " << i << ", draft " << j;
    }
  }
}

TEST_P(GoldenTest, GreedyIdsAreTheGoldenOnesAtEveryStep) {
  TestModel model = make();
  for (int64_t i = 0; i < kNumPrompts; ++i) EXPECT_EQ(model.generate(prompt(i), 0).output_token_ids, greedy(i)) << "prompt " << i;
}

TEST_P(GoldenTest, HiddenStatesAgree) {
  TestModel model = make();
  const int64_t hidden_size = model.config().hidden_size;
  for (int64_t i : detailed_prompts()) {
    std::vector<int32_t> ids = prompt(i);
    for (int32_t id : greedy(i)) ids.push_back(id);
    std::vector<float> post;
    std::vector<float> pre;
    TargetSequence sequence = model.runner().create_sequence(static_cast<int64_t>(ids.size()));
    model.runner().prefill(sequence, ids, [&](int64_t, int64_t rows) {
      for (float x : model.read(model.runner().model().hidden().rows(0, rows))) post.push_back(x);
      for (float x : model.read(model.runner().model().residual().rows(0, rows))) pre.push_back(x);
    });
    const std::string tail = golden_.has(indexed("hidden_post", i)) ? "" : "_tail";
    const std::vector<float> expected_post = golden_.f32(indexed("hidden_post" + tail, i));
    const std::vector<float> expected_pre = golden_.f32(indexed("hidden_pre" + tail, i));
    ASSERT_LE(expected_post.size(), post.size());
    EXPECT_LT(relative_error(std::span(post).last(expected_post.size()), expected_post, hidden_size), kTolerance)
        << "prompt " << i;
    EXPECT_LT(relative_error(std::span(pre).last(expected_pre.size()), expected_pre, hidden_size), kTolerance) << "prompt " << i;
  }
}

TEST_P(GoldenTest, LogitsAfterThePromptAgree) {
  TestModel model = make({.keep_logits = true});
  for (int64_t i : detailed_prompts()) {
    TargetSequence sequence = model.runner().create_sequence(static_cast<int64_t>(prompt(i).size()));
    model.runner().prefill(sequence, prompt(i), nullptr);
    const std::vector<float> logits = model.read(model.runner().logits().rows(0, 1));
    EXPECT_LT(relative_error(logits, golden_.f32(indexed("logits_last_prompt", i)), model.config().vocab_size), kTolerance)
        << "prompt " << i;
  }
}

TEST_P(GoldenTest, ChainedDraftsAgree) {
  TestModel model = make({.log_probabilities = true});
  for (int64_t i : detailed_prompts()) expect_drafts(model, i, "drafts");
}

TEST_P(GoldenTest, ChainedDraftsAgreeWithBothPreNormOptions) {
  TestModel model = make({.hidden = HiddenKind::kPreNorm, .chain = ChainKind::kPreNorm});
  for (int64_t i : detailed_prompts()) expect_drafts(model, i, "drafts_prenorm");
}

TEST_P(GoldenTest, EveryStageOfTheFirstDraftAgrees) {
  TestModel model = make();
  static_cast<void>(draft(model, 0, 1));
  const auto expect = [&](const std::string& name, const Tensor& row) {
    const std::vector<float> expected = golden_.f32("mtp_step0." + name);
    EXPECT_LT(relative_error(model.read(row.rows(0, 1)), expected, static_cast<int64_t>(expected.size())), kTolerance) << name;
  };
  const MtpHead& head = model.proposer().head();
  const LayerScratch& scratch = head.scratch();
  const int64_t hidden_size = model.config().hidden_size;
  expect("joined", head.joined());
  expect("normed_embedding", head.joined().columns(0, hidden_size));
  expect("normed_hidden", head.joined().columns(hidden_size, hidden_size));
  expect("input_norm", scratch.input_norm);
  expect("q", scratch.q);
  expect("v", scratch.v);
  expect("gated", scratch.attention);
  expect("o_proj", scratch.mixed);
  expect("post_attn_norm", scratch.post_norm);
  expect("ffn", scratch.ffn);
  expect("residual", head.residual());
  expect("hidden", head.hidden());

  // The gate is the second half of each head, and what the gated output divided by its sigmoid leaves is the attention itself.
  const auto heads = static_cast<size_t>(model.config().num_attention_heads);
  const auto head_dim = static_cast<size_t>(model.config().head_dim);
  const std::vector<float> q_gate = model.read(scratch.q_gate.rows(0, 1));
  const std::vector<float> gated = model.read(scratch.attention.rows(0, 1));
  std::vector<float> gate;
  std::vector<float> attention;
  for (size_t i = 0; i < heads * head_dim; ++i) {
    gate.push_back(q_gate[i / head_dim * 2 * head_dim + head_dim + i % head_dim]);
    attention.push_back(gated[i] * (1.0F + std::exp(-gate.back())));
  }
  EXPECT_LT(relative_error(gate, golden_.f32("mtp_step0.gate"), static_cast<int64_t>(gate.size())), kTolerance);
  EXPECT_LT(relative_error(attention, golden_.f32("mtp_step0.attn"), static_cast<int64_t>(attention.size())), kTolerance);
}

TEST_P(GoldenTest, FcOutputAndDraftLogitsAgree) {
  TestModel model = make();
  static_cast<void>(draft(model, 0, 1));
  const MtpHead& head = model.proposer().head();
  const Buffer logits = backend_->allocate(dtype_bytes(DType::kF32, static_cast<size_t>(model.config().vocab_size)));
  const Tensor row = logits.tensor(DType::kF32, {1, model.config().vocab_size});
  model.stream().run([&](CommandList& cmd) { model.runner().model().logits(cmd, head.hidden().rows(0, 1), row); });
  EXPECT_LT(relative_error(model.read(row), golden_.f32("mtp_step0.logits"), model.config().vocab_size), kTolerance);

  // Writing a row stops after fc, so its output is still there; the pair is that of the first draft.
  const auto state = model.proposer().alloc_state(16);
  const std::vector<int32_t> first = {greedy(0).front()};
  model.proposer().append_rows(model.stream(), first, model.runner().model().hidden().rows(0, 1), LinearPrecision::kExact,
                               *state);
  EXPECT_LT(relative_error(model.read(head.residual().rows(0, 1)), golden_.f32("mtp_step0.fc_out"), model.config().hidden_size),
            kTolerance);
}

TEST_P(GoldenTest, DrafterKeysAndValuesOfThePromptAgree) {
  TestModel model = make();
  static_cast<void>(draft(model, 0, 1));
  const Shape shape = golden_.shape("mtp_prefill.k");
  const PagedKvView kv = model.proposer().kv_cache().layer(0);
  const PagedKvCacheConfig& cache = model.proposer().kv_cache().config();
  const int64_t row_size = cache.num_key_value_heads * cache.head_dim;
  // The first sequence of a fresh pool has the blocks 0, 1, ... in order, so slots are pair keys.
  const auto rows = [&](const Tensor& side, int64_t first, int64_t count) {
    return model.read(side.reshape({int64_t{cache.num_blocks} * cache.block_size, row_size}).rows(first, count));
  };
  EXPECT_LT(relative_error(rows(kv.k_cache, 0, shape[0]), golden_.f32("mtp_prefill.k"), row_size), kTolerance);
  EXPECT_LT(relative_error(rows(kv.v_cache, 0, shape[0]), golden_.f32("mtp_prefill.v"), row_size), kTolerance);
  EXPECT_LT(relative_error(rows(kv.k_cache, shape[0], 1), golden_.f32("mtp_step0.k"), row_size), kTolerance);
}

TEST_P(GoldenTest, AcceptedDraftsPerRoundAreTheGoldenOnes) {
  TestModel model = make();
  std::ifstream file(data_path("golden/" + GetParam() + ".json"));
  const nlohmann::json expected = nlohmann::json::parse(file);
  for (int64_t depth = 1; depth <= 5; ++depth) {
    const std::string key = std::to_string(depth);
    int64_t accepted = 0;
    int64_t rounds = 0;
    for (int64_t i = 0; i < kNumPrompts; ++i) {
      const GenerationResult result = model.generate(prompt(i), depth);
      EXPECT_EQ(result.output_token_ids, greedy(i)) << "prompt " << i << ", depth " << depth;
      const auto per_round = expected["prompts"][static_cast<size_t>(i)]["accepted_per_round"][key].get<std::vector<int64_t>>();
      EXPECT_EQ(result.speculation.accepted_per_round, per_round) << "prompt " << i << ", depth " << depth;
      accepted += result.speculation.accepted();
      rounds += result.speculation.rounds();
    }
    const double mean = static_cast<double>(accepted) / static_cast<double>(rounds);
    EXPECT_NEAR(mean, expected["mean_accepted_per_round"][key].get<double>(), 0.02) << "depth " << depth;
  }
}

/// With the golden ids forced as context, so one difference does not spoil the rest of a text.
TEST_P(GoldenTest, Bf16PrefillAndCacheAgreeWhereTheMarginIsClear) {
  const bool fast = static_cast<bool>(backend_->capabilities().bf16_prefill);
  TestModel model =
      make({.cache_dtype = DType::kBF16, .prefill_precision = fast ? LinearPrecision::kBF16 : LinearPrecision::kExact});
  for (int64_t i = 0; i < kNumPrompts; ++i) {
    const std::vector<int32_t> expected = greedy(i);
    const std::vector<float> margins = golden_.f32(indexed("margin", i));
    TargetSequence sequence = model.runner().create_sequence(static_cast<int64_t>(prompt(i).size() + expected.size()));
    model.runner().prefill(sequence, prompt(i), nullptr);
    for (size_t step = 0; step < expected.size(); ++step) {
      if (step > 0) model.runner().decode(sequence, expected[step - 1]);
      if (margins[step] < kClearMargin) continue;
      EXPECT_EQ(model.runner().read_picks(1)[0], expected[step]) << "prompt " << i << ", step " << step;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, GoldenTest, ::testing::Values("tiny-dense", "tiny-moe"),
                         [](const auto& instance) { return instance.param == "tiny-dense" ? "TinyDense" : "TinyMoe"; });

}  // namespace
}  // namespace foretoken::test
