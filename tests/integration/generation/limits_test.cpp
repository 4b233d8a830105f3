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

// Field report 33: texts that went on after an end token inside a block.
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

// Field report 34: drafts beyond the end of the context.
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

// Field report 36: drafter rows that were not dropped with their drafts.
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
    EXPECT_EQ(model.proposer().first_missing_key(*state), committed - 1 - fresh);
    const Tensor block = propose_one(model.stream(), model.proposer(), model.runner().read_picks(fresh), hidden, drafts, *state);
    EXPECT_EQ(model.proposer().num_drafted(*state), drafts);
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
  TestModel other(*backend_, "tiny-dense");
  const auto foreign_state = other.proposer().alloc_state(50);
  const auto state = model.proposer().alloc_state(50);
  EXPECT_THROW(model.proposer().after_verify(0, foreign), Error);
  EXPECT_THROW(model.proposer().after_verify(0, *foreign_state), Error);
  EXPECT_THROW(model.proposer().after_verify(1, *state), Error);
  const std::vector<int32_t> ids(32, 1);
  const auto expect_refused = [&](const std::string& what, std::vector<DraftPart> parts) {
    EXPECT_THROW(static_cast<void>(model.proposer().propose(model.stream(), parts, model.runner().model().hidden())), Error)
        << what;
    EXPECT_EQ(model.proposer().num_rows(*state), 0) << what;
  };
  const auto part = [&](size_t rows, int64_t first_hidden_row, int64_t drafts) {
    return DraftPart{.state = state.get(),
                     .next_token_ids = std::span(ids).first(rows),
                     .first_hidden_row = first_hidden_row,
                     .num_drafts = drafts};
  };
  expect_refused("nothing", {});
  expect_refused("more sequences than there are states", {part(1, 0, 1), part(1, 0, 1)});
  expect_refused("no row", {part(0, 0, 1)});
  expect_refused("more rows than fit", {part(17, 0, 1)});
  expect_refused("drafts", {part(1, 0, -1)});
  expect_refused("drafts", {part(1, 0, 16)});
  expect_refused("hidden states before the first", {part(1, -1, 1)});
  expect_refused("hidden states after the last", {part(2, model.runner().model().hidden().dim(0) - 1, 1)});
  expect_refused("no state", {DraftPart{.next_token_ids = std::span(ids).first(1)}});
  expect_refused("another kind of state", {DraftPart{.state = &foreign, .next_token_ids = std::span(ids).first(1)}});
  expect_refused("another proposer's state",
                 {DraftPart{.state = foreign_state.get(), .next_token_ids = std::span(ids).first(1)}});
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
