// What the drafter's context is made of: the prompt's rows, the rows that come with a cached prefix, those of a finished turn.
// Each part can be left out, which changes acceptance and nothing else.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "test_model.h"
#include "tests/support/golden.h"

namespace foretoken::test {
namespace {

constexpr int64_t kChunk = 64;

/// What a conversation came to.
struct Conversation {
  std::vector<std::vector<int32_t>> texts{};
  std::vector<int64_t> cached_tokens{};
  std::vector<std::vector<int64_t>> accepted_per_round{};
  int64_t accepted = 0;

  [[nodiscard]] int64_t cached() const { return std::accumulate(cached_tokens.begin(), cached_tokens.end(), int64_t{0}); }
};

class DrafterContextTest : public ::testing::TestWithParam<std::string> {
 protected:
  /// Every part on.
  static TestModelOptions options() {
    TestModelOptions options{.prefill_chunk = kChunk, .max_append_rows = kChunk, .max_drafts = 5};
    options.prefix_cache = PrefixCacheOptions{.snapshot_bytes = size_t{64} << 20,
                                              .prefill_chunk = kChunk,
                                              .snapshot_spacing = 4 * kChunk,
                                              .row_invariant_prefill = true};
    return options;
  }

  /// A prompt, the same one again, and turns that go on where a text ended.
  Conversation converse(const TestModelOptions& options, int64_t depth) {
    TestModel model(*backend_, GetParam(), options);
    Conversation all;
    const auto ask = [&](const std::vector<int32_t>& prompt) {
      const GenerationResult result = model.generate(prompt, depth);
      all.texts.push_back(result.output_token_ids);
      all.cached_tokens.push_back(result.num_cached_tokens);
      all.accepted_per_round.push_back(result.speculation.accepted_per_round);
      all.accepted += result.speculation.accepted();
      return result.output_token_ids;
    };
    static_cast<void>(ask(prompt(32)));
    std::vector<int32_t> turn = prompt(32);
    for (const int64_t question : {25, 0, 1}) {
      const std::vector<int32_t> text = ask(turn);
      turn.insert(turn.end(), text.begin(), text.end());
      const std::vector<int32_t> next = prompt(question);
      turn.insert(turn.end(), next.begin(), next.end());
    }
    static_cast<void>(ask(turn));
    return all;
  }
  [[nodiscard]] std::vector<int32_t> prompt(int64_t i) const { return golden_.i32("prompt_" + std::to_string(i)); }

  /// Runs with every part on and with one of them off: the texts are those of plain decoding without any cache.
  std::pair<Conversation, Conversation> with_and_without(const std::function<void(TestModelOptions&)>& turn_off) {
    TestModelOptions bare = options();
    bare.prefix_cache.reset();
    TestModelOptions off = options();
    turn_off(off);
    const Conversation plain = converse(bare, 0);
    std::pair<Conversation, Conversation> both{converse(options(), 4), converse(off, 4)};
    EXPECT_EQ(both.first.texts, plain.texts);
    EXPECT_EQ(both.second.texts, plain.texts);
    return both;
  }

  std::unique_ptr<GpuBackend> backend_ = open_test_device();
  Golden golden_{GetParam() + ".golden.safetensors"};
};

TEST_P(DrafterContextTest, WithoutPromptRowsTheTextIsTheSameAndFewerDraftsHold) {
  const auto [with, without] = with_and_without([](TestModelOptions& options) { options.draft_prompt_rows = false; });
  EXPECT_LT(without.accepted, with.accepted);
  EXPECT_EQ(without.cached_tokens, with.cached_tokens) << "the target's part of a prefix is cached all the same";
}

TEST_P(DrafterContextTest, WithoutAPrefixCacheTheTextAndTheDraftsAreTheSame) {
  const auto [with, without] = with_and_without([](TestModelOptions& options) { options.prefix_cache.reset(); });
  EXPECT_EQ(without.cached(), 0);
  EXPECT_GT(with.cached(), 0);
  EXPECT_EQ(without.accepted_per_round, with.accepted_per_round) << "a hit costs no drafter context";
}

TEST_P(DrafterContextTest, WithoutTheDrafterRowsOfAPrefixTheTextAndTheHitsAreTheSame) {
  const auto [with, without] = with_and_without([](TestModelOptions& options) { options.prefix_cache->draft_rows = false; });
  EXPECT_EQ(without.cached_tokens, with.cached_tokens);
  EXPECT_EQ(without.accepted_per_round.front(), with.accepted_per_round.front()) << "nothing was cached yet";
  EXPECT_NE(without.accepted_per_round, with.accepted_per_round);
}

TEST_P(DrafterContextTest, WithoutFinishedTurnsTheTextIsTheSameAndHitsAreShorter) {
  const auto [with, without] = with_and_without([](TestModelOptions& options) { options.prefix_cache->reuse_generated = false; });
  EXPECT_LT(without.cached(), with.cached());
  EXPECT_GT(without.cached_tokens[1], 0) << "what was read as a prompt is cached all the same";
  EXPECT_EQ(without.accepted_per_round, with.accepted_per_round);
}

TEST_P(DrafterContextTest, WithoutRoomForSnapshotsTheTextIsTheSame) {
  const auto [with, without] = with_and_without([](TestModelOptions& options) { options.prefix_cache->max_snapshots = 0; });
  EXPECT_GT(with.cached(), 0);
  EXPECT_EQ(without.cached(), 0) << "these models have recurrent state";
}

/// The drafter's first row is that of the first generated token, at its absolute position.
TEST_P(DrafterContextTest, WithoutPromptRowsTheContextBeginsWithTheText) {
  TestModel model(*backend_, GetParam(), options());
  const std::vector<int32_t> ids = prompt(25);
  const auto last_key = static_cast<int64_t>(ids.size()) - 1;
  const auto state = model.proposer().alloc_state(200);
  model.proposer().skip_to(last_key, *state);
  EXPECT_EQ(model.proposer().num_rows(*state), 0);
  EXPECT_EQ(model.proposer().first_missing_key(*state), last_key);
  EXPECT_TRUE(model.proposer().kv_blocks(*state).empty()) << "no prefix may be made of it";
  TargetSequence sequence = model.runner().create_sequence(200);
  model.runner().prefill(sequence, ids, nullptr);
  static_cast<void>(
      propose_one(model.stream(), model.proposer(), model.runner().read_picks(1), model.runner().model().hidden(), 3, *state));
  EXPECT_EQ(model.proposer().num_rows(*state), 3);
  EXPECT_EQ(model.proposer().last_pair_key(*state), last_key + 2);
}

TEST_P(DrafterContextTest, PreemptedRequestsWithoutPromptRowsGoOnWithTheSameText) {
  TestModelOptions bare = options();
  bare.draft_prompt_rows = false;
  bare.max_sequences = 2;
  TestModel model(*backend_, GetParam(), bare);
  const GenerationResult expected = model.generate(prompt(25), 4, 40);
  GenerationEngine& engine = model.generator();
  const RequestId id = engine.submit(prompt(25), {.max_tokens = 40, .num_speculative_tokens = 4});
  for (int round = 0; !engine.is_finished(id); ++round) {
    engine.step();
    if (round % 3 == 1 && engine.is_decoding(id)) engine.preempt(id);
  }
  const GenerationResult result = engine.take_result(id);
  EXPECT_GT(result.num_preemptions, 0);
  EXPECT_TRUE(
      std::ranges::equal(expected.output_token_ids, std::span(result.output_token_ids).first(expected.output_token_ids.size())));
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, DrafterContextTest, ::testing::Values("tiny-dense", "tiny-moe"),
                         [](const auto& instance) { return instance.param == "tiny-dense" ? "TinyDense" : "TinyMoe"; });

}  // namespace
}  // namespace foretoken::test
