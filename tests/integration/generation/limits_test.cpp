// Where texts end: stop tokens, --max-tokens and the context limit, at every place of an accepted block; and what the drafter
// holds.
#include <gtest/gtest.h>

#include <algorithm>

#include "core/error.h"
#include "test_model.h"
#include "tests/support/golden.h"

namespace foretoken::test {
namespace {

class LimitsTest : public ::testing::Test {
 protected:
  [[nodiscard]] std::vector<int32_t> prompt(int64_t i) const { return golden_.i32("prompt_" + std::to_string(i)); }
  std::vector<int32_t> plain(TestModel& model, int64_t i, int64_t max_tokens) {
    return model.generator().generate(prompt(i), {.max_tokens = max_tokens, .num_speculative_tokens = 0}).output_token_ids;
  }

  std::unique_ptr<GpuBackend> backend_ = open_test_device();
  Golden golden_{"tiny-dense.golden.safetensors"};
};

/// Every token of a text in turn is the stop token, all drafts right: the end falls on each place of a block.
TEST_F(LimitsTest, AStopTokenEndsTheTextAtEachPlaceOfABlock) {
  TestModel model(*backend_, "tiny-dense");
  const std::vector<int32_t> text = plain(model, 25, 40);
  for (size_t end = 0; end < 14; ++end) {
    const auto first = std::ranges::find(text, text[end]) - text.begin();
    const std::vector<int32_t> stop{text[end]};
    GenerationOptions options{.max_tokens = 40, .num_speculative_tokens = 5, .stop_token_ids = stop};
    options.forced = {.pattern = {5}, .continuation = text};
    const GenerationResult result = model.generator().generate(prompt(25), options);
    EXPECT_EQ(result.output_token_ids, std::vector<int32_t>(text.begin(), text.begin() + first + 1)) << "stop at " << end;
    EXPECT_EQ(result.finish_reason, FinishReason::kStop);
  }
}

TEST_F(LimitsTest, AStopTokenThatIsOnlyDraftedEndsNothing) {
  TestModel model(*backend_, "tiny-dense");
  const std::vector<int32_t> text = plain(model, 25, 40);
  // Forcing 0 accepts drafts text[n] + 1, which must not end the text.
  std::vector<int32_t> stops;
  for (int32_t id : text) {
    if (std::ranges::find(text, id + 1) == text.end()) stops.push_back(id + 1);
  }
  ASSERT_FALSE(stops.empty());
  GenerationOptions options{.max_tokens = 40, .num_speculative_tokens = 3, .stop_token_ids = stops};
  options.forced = {.pattern = {0}, .continuation = text};
  EXPECT_EQ(model.generator().generate(prompt(25), options).output_token_ids, text);
}

TEST_F(LimitsTest, MaxTokensCutsTheTextExactlyAndNotTheDepth) {
  TestModel model(*backend_, "tiny-dense");
  const std::vector<int32_t> text = plain(model, 25, 40);
  for (int64_t max_tokens = 1; max_tokens <= 13; ++max_tokens) {
    GenerationOptions options{.max_tokens = max_tokens, .num_speculative_tokens = 5};
    options.forced = {.pattern = {5}, .continuation = text};
    const GenerationResult result = model.generator().generate(prompt(25), options);
    EXPECT_EQ(result.output_token_ids, std::vector<int32_t>(text.begin(), text.begin() + max_tokens));
    EXPECT_EQ(result.finish_reason, FinishReason::kLength);
    EXPECT_EQ(result.speculation.drafted, 5 * result.speculation.rounds());
    // One token comes from the prompt, then up to six a round; a cut round counts the drafts that were emitted.
    const int64_t after_first = max_tokens - 1;
    EXPECT_EQ(result.speculation.accepted(), after_first - after_first / 6) << "max_tokens " << max_tokens;
  }
}

/// Contexts of every size just above the prompt: the text stops at the limit, whatever the depth, and nothing is written past it.
TEST_F(LimitsTest, TheContextLimitEndsTheTextInsideABlock) {
  const std::vector<int32_t> ids = prompt(25);
  for (int64_t room = 1; room <= 20; ++room) {
    const int64_t context = static_cast<int64_t>(ids.size()) + room;
    TestModel model(*backend_, "tiny-dense", {.max_seq_len = context});
    const GenerationResult expected = model.generator().generate(ids, {.max_tokens = 100, .num_speculative_tokens = 0});
    EXPECT_EQ(static_cast<int64_t>(expected.output_token_ids.size()), room);
    for (int64_t depth : {1, 4, 15}) {
      GenerationOptions options{.max_tokens = 100, .num_speculative_tokens = depth};
      options.forced = {.pattern = {15}, .continuation = expected.output_token_ids};
      const GenerationResult result = model.generator().generate(ids, options);
      EXPECT_EQ(result.output_token_ids, expected.output_token_ids) << "room " << room << ", depth " << depth;
      EXPECT_EQ(result.finish_reason, FinishReason::kLength);
    }
  }
}

TEST_F(LimitsTest, BadRequestsAreRefusedAndLeaveNothing) {
  TestModel model(*backend_, "tiny-dense", {.max_seq_len = 64});
  const size_t allocated = backend_->allocated_bytes();
  const std::vector<int32_t> ids = prompt(25);
  const std::vector<int32_t> negative{-1};
  const std::vector<int32_t> beyond{4096};
  const std::vector<int32_t> too_long(64, 5);
  EXPECT_THROW(static_cast<void>(model.generate({}, 3)), Error);
  EXPECT_THROW(static_cast<void>(model.generate(negative, 3)), Error);
  EXPECT_THROW(static_cast<void>(model.generate(beyond, 3)), Error);
  EXPECT_THROW(static_cast<void>(model.generate(too_long, 3)), Error);
  EXPECT_THROW(static_cast<void>(model.generate(ids, 16)), Error);
  EXPECT_THROW(static_cast<void>(model.generate(ids, -1)), Error);
  EXPECT_THROW(static_cast<void>(model.generate(ids, 3, 0)), Error);
  EXPECT_EQ(backend_->allocated_bytes(), allocated);
  EXPECT_EQ(model.runner().states().num_free(), 1);
  EXPECT_FALSE(model.generate(ids, 3, 8).output_token_ids.empty());
}

/// Drafter rows by hand: after the first pass of each round, each pair key of the committed text once, none beyond.
TEST_F(LimitsTest, TheDrafterHoldsEachPairKeyOfTheCommittedTextOnce) {
  TestModel model(*backend_, "tiny-dense");
  const std::vector<int32_t> ids = prompt(25);
  TargetSequence sequence = model.runner().create_sequence(200);
  const auto state = model.proposer().alloc_state(200);
  const Tensor& hidden = model.runner().model().hidden();
  model.runner().prefill(sequence, ids, [&](int64_t, int64_t rows) {
    model.proposer().append_rows(model.stream(), std::span(ids).subspan(1), hidden.rows(0, rows - 1), LinearPrecision::kExact,
                                 *state);
  });
  auto committed = static_cast<int64_t>(ids.size()) + 1;
  EXPECT_EQ(model.proposer().last_pair_key(*state), committed - 3);
  int64_t fresh = 1;
  for (int round = 0; round < 12; ++round) {
    const int64_t drafts = 1 + round % 5;
    const Tensor block = model.proposer().propose(
        model.stream(),
        {.next_token_ids = model.runner().picks().rows(0, fresh), .hidden = hidden.rows(0, fresh), .num_drafts = drafts}, *state);
    EXPECT_EQ(model.proposer().num_rows(*state), committed - 1 + drafts - 1);
    model.runner().verify(sequence, block);
    const StepResult result = model.runner().finish().front();
    model.proposer().after_verify(result.num_accepted, *state);
    EXPECT_EQ(model.proposer().last_pair_key(*state), committed - 2);
    EXPECT_EQ(sequence.num_tokens(), committed + result.num_accepted);
    fresh = result.num_accepted + 1;
    committed += fresh;
  }
}

TEST_F(LimitsTest, ProposersRefuseWhatDoesNotBelongToThem) {
  TestModel model(*backend_, "tiny-dense");
  struct Foreign : ProposerState {
  } foreign;
  const auto state = model.proposer().alloc_state(50);
  EXPECT_THROW(model.proposer().after_verify(0, foreign), Error);
  EXPECT_THROW(model.proposer().after_verify(1, *state), Error);
  const Tensor& hidden = model.runner().model().hidden();
  const Tensor& picks = model.runner().picks();
  const auto propose = [&](int64_t rows, int64_t hidden_rows, int64_t drafts) {
    static_cast<void>(model.proposer().propose(
        model.stream(), {.next_token_ids = picks.rows(0, rows), .hidden = hidden.rows(0, hidden_rows), .num_drafts = drafts},
        *state));
  };
  EXPECT_THROW(propose(1, 1, 0), Error);
  EXPECT_THROW(propose(1, 1, 16), Error);
  EXPECT_THROW(propose(2, 1, 3), Error);
}

TEST_F(LimitsTest, DrafterRowsMoveFromAFinishedSequenceToTheNext) {
  TestModel model(*backend_, "tiny-dense");
  const std::vector<int32_t> ids = prompt(25);
  const Tensor& hidden = model.runner().model().hidden();
  TargetSequence sequence = model.runner().create_sequence(100);
  const auto first = model.proposer().alloc_state(100);
  model.runner().prefill(sequence, ids, nullptr);
  model.proposer().append_rows(model.stream(), std::span(ids).subspan(1, 5), hidden.rows(0, 5), LinearPrecision::kExact, *first);
  DrafterKv kv = model.proposer().take_kv(*first);
  EXPECT_EQ(kv.num_rows, 5);
  EXPECT_EQ(model.proposer().num_rows(*first), 0);
  const auto second = model.proposer().alloc_state(16);
  EXPECT_THROW(model.proposer().install_kv(kv, 6, *second), Error);
  model.proposer().install_kv(kv, 4, *second);
  EXPECT_EQ(model.proposer().last_pair_key(*second), 3);
  DrafterKv none = model.proposer().take_kv(*first);
  EXPECT_THROW(model.proposer().install_kv(none, 0, *second), Error);
}

}  // namespace
}  // namespace foretoken::test
