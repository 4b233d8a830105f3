// Speculation never changes a bit: ids, and target logits row by row, for every depth, accept count, thread count and chunking.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "test_model.h"
#include "tests/support/golden.h"

namespace foretoken::test {
namespace {

constexpr int64_t kNumPrompts = 34;

class ExactnessTest : public ::testing::TestWithParam<std::string> {
 protected:
  [[nodiscard]] std::vector<int32_t> prompt(int64_t i) const { return golden_.i32("prompt_" + std::to_string(i)); }
  [[nodiscard]] std::vector<int32_t> greedy(int64_t i) const { return golden_.i32("greedy_" + std::to_string(i)); }
  /// The first `length` tokens of the long prompt.
  [[nodiscard]] std::vector<int32_t> long_prompt(int64_t length) const {
    std::vector<int32_t> ids = prompt(33);
    ids.resize(static_cast<size_t>(length));
    return ids;
  }
  /// Drafts after a prefill of `ids`.
  static std::vector<int32_t> drafts_after(TestModel& model, std::span<const int32_t> ids, int64_t num_drafts,
                                           std::vector<float>& hidden);

  std::unique_ptr<GpuBackend> backend_ = open_test_device();
  Golden golden_{GetParam() + ".golden.safetensors"};
};

void expect_no_difference(const GenerationResult& result, const std::string& what) {
  EXPECT_EQ(result.self_check.rows_different, 0) << what << ", first at token " << result.self_check.first_difference;
}

// Field reports 18, 20 and 21: texts that depended on the depth. Acceptance proves nothing; logits do.
/// All prompts, every depth; the self-check compares the logits of every committed row with plain one-row steps.
TEST_P(ExactnessTest, EveryDepthGivesTheSameIdsAndLogits) {
  TestModel model(*backend_, GetParam(), {.cache_dtype = DType::kBF16, .self_check = true});
  for (int64_t i = 0; i < kNumPrompts; ++i) {
    const std::vector<int32_t> plain = model.generate(prompt(i), 0).output_token_ids;
    for (int64_t depth = 1; depth <= 15; ++depth) {
      const std::string what = "prompt " + std::to_string(i) + ", depth " + std::to_string(depth);
      const GenerationResult result = model.generate(prompt(i), depth);
      EXPECT_EQ(result.output_token_ids, plain) << what;
      EXPECT_GE(result.self_check.rows_checked, static_cast<int64_t>(plain.size()) - 1) << what;
      expect_no_difference(result, what);
    }
  }
}

// Field report 17: rejected drafts that stayed in recurrent states.
/// Accept counts 0 .. K in any order, with rounds without drafts between rounds with many.
TEST_P(ExactnessTest, ForcedAcceptCountsAndPausesChangeNothing) {
  TestModel model(*backend_, GetParam(), {.self_check = true});
  std::mt19937_64 random(11);
  for (int64_t i : {1, 25, 30, 32}) {
    const GenerationResult plain = model.generator().generate(prompt(i), {.max_tokens = 150, .num_speculative_tokens = 0});
    for (int trial = 0; trial < 8; ++trial) {
      GenerationOptions options{.max_tokens = 150, .num_speculative_tokens = 15};
      for (int r = 0; r < 40; ++r) options.depth_pattern.push_back(random() % 3 == 0 ? 0 : static_cast<int64_t>(random() % 16));
      for (int r = 0; r < 37; ++r) options.forced.pattern.push_back(static_cast<int64_t>(random() % 16));
      options.forced.continuation = plain.output_token_ids;
      const GenerationResult result = model.generator().generate(prompt(i), options);
      EXPECT_EQ(result.output_token_ids, plain.output_token_ids) << "prompt " << i << ", trial " << trial;
      expect_no_difference(result, "prompt " + std::to_string(i));
    }
  }
}

// Field report 19: another text after a rejection, and not the same one each time.
TEST_P(ExactnessTest, ManyRejectionsGiveThePlainTextEveryTime) {
  TestModel model(*backend_, GetParam(), {.self_check = true});
  for (const int64_t i : {0, 25, 32}) {
    const GenerationResult plain = model.generator().generate(prompt(i), {.max_tokens = 80, .num_speculative_tokens = 0});
    GenerationOptions options{.max_tokens = 80, .num_speculative_tokens = 3};
    options.forced = {.pattern = {0, 0, 1, 0, 2}, .continuation = plain.output_token_ids};
    for (int repeat = 0; repeat < 3; ++repeat) {
      const GenerationResult result = model.generator().generate(prompt(i), options);
      EXPECT_EQ(result.output_token_ids, plain.output_token_ids) << "prompt " << i << ", repeat " << repeat;
      EXPECT_LT(result.speculation.accepted(), result.speculation.drafted / 3);
      expect_no_difference(result, "prompt " + std::to_string(i));
    }
  }
}

TEST_P(ExactnessTest, ForcedAcceptCountsAreTheCountsThatAreReported) {
  TestModel model(*backend_, GetParam());
  const std::vector<int32_t> ids = prompt(25);
  GenerationOptions options{.max_tokens = 60, .num_speculative_tokens = 0};
  const std::vector<int32_t> plain = model.generator().generate(ids, options).output_token_ids;
  options.num_speculative_tokens = 4;
  options.forced = {.pattern = {0, 4, 2, 1, 3}, .continuation = plain};
  const GenerationResult result = model.generator().generate(ids, options);
  EXPECT_EQ(result.output_token_ids, plain);
  ASSERT_GE(result.speculation.rounds(), 10);
  for (size_t r = 0; r < 10; ++r)
    EXPECT_EQ(result.speculation.accepted_per_round[r], options.forced.pattern[r % 5]) << "round " << r;
}

TEST_P(ExactnessTest, AForcedRunLeavesNothingToTheNext) {
  TestModel model(*backend_, GetParam());
  const std::vector<int32_t> ids = prompt(25);
  const GenerationResult before = model.generate(ids, 4);
  GenerationOptions options{.max_tokens = 5, .num_speculative_tokens = 4};
  options.forced = {.pattern = {0}, .continuation = before.output_token_ids};
  EXPECT_EQ(model.generator().generate(ids, options).speculation.accepted(), 0);
  EXPECT_EQ(model.generate(ids, 4).speculation.accepted_per_round, before.speculation.accepted_per_round);
}

/// Long stretches without drafts: the drafter catches up and drafts as if it had never paused.
TEST_P(ExactnessTest, DraftsAfterALongPauseAreThoseOfAnEagerDrafter) {
  TestModel model(*backend_, GetParam());
  const std::vector<int32_t> ids = prompt(30);
  for (int64_t pause : {1, 15, 16, 17, 63, 64, 65, 130}) {
    GenerationOptions paused{.max_tokens = pause + 20, .num_speculative_tokens = 3};
    paused.depth_pattern.assign(static_cast<size_t>(pause), 0);
    paused.depth_pattern.push_back(3);
    const GenerationResult late = model.generator().generate(ids, paused);
    // The same text fed as a prompt: its first round starts where the pause ended.
    std::vector<int32_t> fed = ids;
    fed.insert(fed.end(), late.output_token_ids.begin(), late.output_token_ids.begin() + pause);
    const GenerationResult eager = model.generator().generate(fed, {.max_tokens = 20, .num_speculative_tokens = 3});
    ASSERT_FALSE(late.speculation.accepted_per_round.empty());
    EXPECT_EQ(late.speculation.accepted_per_round.front(), eager.speculation.accepted_per_round.front()) << "pause " << pause;
  }
}

TEST_P(ExactnessTest, BitsDoNotDependOnTheNumberOfThreads) {
  std::vector<std::vector<float>> logits;
  std::vector<std::vector<int32_t>> ids;
  for (int threads : {1, 2, 3, 5}) {
    const auto backend = open_cpu(threads);
    TestModel model(*backend, GetParam(), {.cache_dtype = DType::kBF16, .keep_logits = true});
    ids.push_back(model.generate(prompt(32), 3, 32).output_token_ids);
    logits.push_back(model.read(model.runner().logits().rows(0, 4)));
    EXPECT_EQ(ids.back(), ids.front()) << threads << " threads";
    EXPECT_EQ(std::memcmp(logits.back().data(), logits.front().data(), logits.front().size() * sizeof(float)), 0)
        << threads << " threads";
  }
}

/// Prompts that end at, before and after the boundaries of cache blocks (16) and prefill chunks (64 here).
TEST_P(ExactnessTest, PromptsAroundBlockAndChunkBoundaries) {
  TestModel model(*backend_, GetParam(), {.prefill_chunk = 64, .self_check = true});
  for (int64_t length : {1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257, 511, 512, 513}) {
    const std::vector<int32_t> ids = long_prompt(length);
    const std::vector<int32_t> plain = model.generate(ids, 0, 24).output_token_ids;
    for (int64_t depth : {1, 3, 15}) {
      const GenerationResult result = model.generate(ids, depth, 24);
      EXPECT_EQ(result.output_token_ids, plain) << "length " << length << ", depth " << depth;
      expect_no_difference(result, "length " + std::to_string(length));
    }
  }
}

std::vector<int32_t> ExactnessTest::drafts_after(TestModel& model, std::span<const int32_t> ids, int64_t num_drafts,
                                                 std::vector<float>& hidden) {
  const auto state = model.proposer().alloc_state(static_cast<int64_t>(ids.size()) + num_drafts);
  TargetSequence sequence = model.runner().create_sequence(static_cast<int64_t>(ids.size()));
  const Tensor& rows = model.runner().model().hidden();
  model.runner().prefill(sequence, ids, [&](int64_t first, int64_t num_rows) {
    const int64_t known = std::min(num_rows, static_cast<int64_t>(ids.size()) - 1 - first);
    model.proposer().append_rows(model.stream(), ids.subspan(static_cast<size_t>(first + 1), static_cast<size_t>(known)),
                                 rows.rows(0, known), LinearPrecision::kExact, *state);
  });
  hidden = model.read(rows.rows(0, 1));
  const Tensor block = propose_one(model.stream(), model.proposer(), model.runner().read_picks(1), rows, num_drafts, *state);
  std::vector<int32_t> drafts(static_cast<size_t>(num_drafts + 1));
  model.stream().download(block.view(), std::as_writable_bytes(std::span(drafts)));
  return drafts;
}

// Field report 11: drafts that depended on how the prompt had been cut.
/// Float32 prefill in one chunk, in many, and token by token: bit-equal hidden states, equal drafts.
TEST_P(ExactnessTest, ChunkingOfAFloat32PrefillChangesNoBit) {
  const std::vector<int32_t> ids = long_prompt(300);
  std::vector<float> expected_hidden;
  std::vector<int32_t> expected;
  for (int64_t chunk : {512, 100, 64, 7, 1}) {
    TestModel model(*backend_, GetParam(), {.prefill_chunk = chunk, .log_probabilities = true});
    std::vector<float> hidden;
    const std::vector<int32_t> drafts = drafts_after(model, ids, 8, hidden);
    if (expected.empty()) {
      expected = drafts;
      expected_hidden = hidden;
    }
    EXPECT_EQ(drafts, expected) << "chunk " << chunk;
    EXPECT_EQ(hidden, expected_hidden) << "chunk " << chunk;
  }
}

TEST_P(ExactnessTest, MemoryIsReturnedWhenASequenceEnds) {
  TestModel model(*backend_, GetParam());
  const size_t allocated = backend_->allocated_bytes();
  const int32_t kv_blocks = model.runner().kv_cache().pool().num_free();
  const int32_t drafter_blocks = model.proposer().kv_cache().pool().num_free();
  for (int repeat = 0; repeat < 3; ++repeat) {
    static_cast<void>(model.generate(prompt(28), 5));
    EXPECT_EQ(backend_->allocated_bytes(), allocated);
    EXPECT_EQ(model.runner().kv_cache().pool().num_free(), kv_blocks);
    EXPECT_EQ(model.proposer().kv_cache().pool().num_free(), drafter_blocks);
    EXPECT_EQ(model.runner().states().num_free(), 1);
  }
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, ExactnessTest, ::testing::Values("tiny-dense", "tiny-moe"),
                         [](const auto& instance) { return instance.param == "tiny-dense" ? "TinyDense" : "TinyMoe"; });

}  // namespace
}  // namespace foretoken::test
