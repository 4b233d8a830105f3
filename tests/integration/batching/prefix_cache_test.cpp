// The prefix cache in the engine: what it saves, and that nothing else changes: texts, drafts and acceptance are those of a cold
// run.
#include <gtest/gtest.h>

#include <algorithm>

#include "test_model.h"
#include "tests/support/golden.h"

namespace foretoken::test {
namespace {

constexpr int64_t kChunk = 64;

class PrefixCacheTest : public ::testing::TestWithParam<std::string> {
 protected:
  [[nodiscard]] std::vector<int32_t> prompt(int64_t i) const { return golden_.i32("prompt_" + std::to_string(i)); }
  static TestModelOptions cold() {
    TestModelOptions options{.prefill_precision = LinearPrecision::kBF16, .max_seq_len = 3400, .max_drafts = 5};
    options.prefill_chunk = kChunk;
    options.max_append_rows = kChunk;
    return options;
  }
  static TestModelOptions cached(int64_t spacing = 4 * kChunk) {
    TestModelOptions options = cold();
    options.prefix_cache = PrefixCacheOptions{
        .snapshot_bytes = size_t{64} << 20, .prefill_chunk = kChunk, .snapshot_spacing = spacing, .row_invariant_prefill = false};
    return options;
  }
  static void expect_same(const GenerationResult& got, const GenerationResult& expected) {
    EXPECT_EQ(got.output_token_ids, expected.output_token_ids);
    EXPECT_EQ(got.speculation.accepted_per_round, expected.speculation.accepted_per_round)
        << "the drafts are those of a cold run";
  }
  /// Tokens that a repeat of a prompt finds: its last whole chunk that leaves a token to compute.
  static int64_t last_border(int64_t prompt_tokens) { return (prompt_tokens - 1) / kChunk * kChunk; }

  std::unique_ptr<GpuBackend> backend_ = open_test_device();
  Golden golden_{GetParam() + ".golden.safetensors"};
};

// Field reports 13 and 14: repeats that never hit, and hits that left the drafter without context.
TEST_P(PrefixCacheTest, ARepeatedPromptComputesOnlyWhatFollowsTheLastSnapshot) {
  for (const int64_t i : {32, 33}) {
    TestModel without(*backend_, GetParam(), cold());
    const GenerationResult expected = without.generate(prompt(i), 4);
    TestModel model(*backend_, GetParam(), cached());
    const int64_t tokens = static_cast<int64_t>(prompt(i).size());
    for (int repeat = 0; repeat < 3; ++repeat) {
      const int64_t chunks = model.generator().statistics().num_prefill_chunks;
      const GenerationResult result = model.generate(prompt(i), 4);
      expect_same(result, expected);
      EXPECT_EQ(result.num_cached_tokens, repeat == 0 ? 0 : last_border(tokens)) << "prompt " << i << ", repeat " << repeat;
      const int64_t read = model.generator().statistics().num_prefill_chunks - chunks;
      EXPECT_EQ(read, repeat == 0 ? (tokens + kChunk - 1) / kChunk : 1);
    }
  }
}

// Field report 12: speculation that cost prefix hits.
TEST_P(PrefixCacheTest, HitsAreTheSameWithAndWithoutSpeculation) {
  std::vector<int64_t> hits;
  for (const int64_t depth : {0, 3}) {
    TestModel model(*backend_, GetParam(), cached());
    const GenerationResult first = model.generate(prompt(32), depth);
    const GenerationResult second = model.generate(prompt(32), depth);
    EXPECT_EQ(second.output_token_ids, first.output_token_ids);
    hits.push_back(second.num_cached_tokens);
  }
  EXPECT_EQ(hits[0], hits[1]);
  EXPECT_GT(hits[0], 0);
}

TEST_P(PrefixCacheTest, PromptsThatPartShareWhatTheyHaveInCommon) {
  TestModel model(*backend_, GetParam(), cached(kChunk));
  static_cast<void>(model.generate(prompt(33), 4));
  std::vector<int32_t> other = prompt(33);
  other.resize(1000);
  other[700] = (other[700] + 1) % 4096;
  TestModel without(*backend_, GetParam(), cold());
  const GenerationResult expected = without.generate(other, 4);
  const GenerationResult result = model.generate(other, 4);
  expect_same(result, expected);
  EXPECT_EQ(result.num_cached_tokens, 700 / kChunk * kChunk);
}

/// A next turn: the first one's prompt and text, and a new question. Its text is that of a cold run, where the exact prefill
/// gives the bits of decode steps.
TEST_P(PrefixCacheTest, ANextTurnGoesOnWhereTheTextEnded) {
  TestModelOptions exact = cached();
  exact.prefill_precision = LinearPrecision::kExact;
  exact.prefix_cache->row_invariant_prefill = true;
  for (const int64_t depth : {0, 4}) {
    TestModel model(*backend_, GetParam(), exact);
    std::vector<int32_t> turn = prompt(32);
    const GenerationResult first = model.generate(turn, depth);
    turn.insert(turn.end(), first.output_token_ids.begin(), first.output_token_ids.end());
    const auto in_cache = static_cast<int64_t>(turn.size()) - 1;  // the last token of a text is in no cache
    const std::vector<int32_t> question = prompt(25);
    turn.insert(turn.end(), question.begin(), question.end());
    const GenerationResult second = model.generate(turn, depth);
    EXPECT_EQ(second.num_cached_tokens, in_cache) << "depth " << depth;
    TestModelOptions exact_cold = cold();
    exact_cold.prefill_precision = LinearPrecision::kExact;
    TestModel without(*backend_, GetParam(), exact_cold);
    expect_same(second, without.generate(turn, depth));
  }
}

// Field report 15: a cache under pressure that spoilt the states of those that ran.
/// Blocks for little more than one sequence: each request evicts what others left.
TEST_P(PrefixCacheTest, EvictionUnderPressureChangesNoText) {
  TestModelOptions tight = cached(kChunk);
  tight.num_kv_blocks = 50;
  tight.max_seq_len = 700;
  TestModel model(*backend_, GetParam(), tight);
  TestModelOptions cold_options = cold();
  cold_options.max_seq_len = 700;
  TestModel without(*backend_, GetParam(), cold_options);
  for (int64_t round = 0; round < 3; ++round) {
    for (const int64_t i : {32, 24, 25, 26, 32}) expect_same(model.generate(prompt(i), 5), without.generate(prompt(i), 5));
  }
  EXPECT_GT(model.generator().prefix_cache()->index().statistics().num_evicted_nodes, 0);
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, PrefixCacheTest, ::testing::Values("tiny-dense", "tiny-moe"),
                         [](const auto& instance) { return instance.param == "tiny-dense" ? "TinyDense" : "TinyMoe"; });

}  // namespace
}  // namespace foretoken::test
