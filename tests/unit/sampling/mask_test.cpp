// Token masks: a callback per position, advanced inside a block over the drafts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "tests/unit/sampling/sampler_harness.h"

namespace foretoken::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Texts = std::vector<std::vector<int32_t>>;

constexpr SamplerOptions kOptions{
    .vocab_size = 50, .max_sequences = 2, .max_rows = 16, .max_drafts = 7, .max_stop_ids = 2, .max_mask_rows = 8};
constexpr int32_t kEndOfThought = 40;
constexpr int32_t kStop = 49;

void allow(std::span<uint32_t> words, std::initializer_list<int32_t> ids) {
  for (const int32_t id : ids) words[static_cast<size_t>(id) / 32] |= 1U << (id % 32);
}

/// After kEndOfThought only 7, then 8, then 7 ...; three of them end the grammar, and only kStop may follow. Notes every call.
TokenMaskFn grammar(Texts& calls) {
  return [&calls](std::span<const int32_t> output, std::span<uint32_t> allowed) {
    calls.emplace_back(output.begin(), output.end());
    const auto begin = std::ranges::find(output, kEndOfThought);
    if (begin == output.end()) return false;
    const auto count = output.end() - begin - 1;
    if (count >= 3) {
      allow(allowed, {kStop});
    } else {
      allow(allowed, {count % 2 == 0 ? 7 : 8});
    }
    return true;
  };
}

class Masked : public testing::Test {
 protected:
  /// A block of the sequence in slot 0 whose rows all like 5 best, then 8, then 7.
  SampledStep block(const std::vector<int32_t>& drafts) {
    std::vector<float> row(50, 0.0F);
    row[5] = 9.0F;
    row[8] = 8.0F;
    row[7] = 7.0F;
    row[kEndOfThought] = 6.0F;
    return harness_.step({{.slot = 0, .first_position = 9, .logits = {drafts.size() + 1, row}, .drafts = drafts}});
  }
  void join(SamplingParams params, const std::vector<int32_t>& output) {
    params.token_mask = grammar(calls_);
    params.stop_token_ids = {kStop};
    harness_.join(0, params, {1}, output);
  }

  Texts calls_;
  SamplerHarness harness_{kOptions};
};

// Field report 28: grammars that began inside a block and were not advanced over the rest of it.
TEST_F(Masked, AGrammarThatBeginsInsideABlockHoldsFromThereOn) {
  join({.logit_bias = {{kEndOfThought, 3.5F}}}, {1, 2});  // now it is the best while the grammar has not begun
  const SampledStep step = block({kEndOfThought, 7, 8, 7});
  EXPECT_THAT(step.picks, ElementsAre(kEndOfThought, 7, 8, 7, kStop));
  EXPECT_EQ(step.num_accepted[0], 4);
  EXPECT_EQ(
      calls_,
      (Texts{
          {1, 2}, {1, 2, kEndOfThought}, {1, 2, kEndOfThought, 7}, {1, 2, kEndOfThought, 7, 8}, {1, 2, kEndOfThought, 7, 8, 7}}));
}

TEST_F(Masked, ADraftThatIsNotAllowedIsRejectedAndNeverShown) {
  join({}, {kEndOfThought});
  const SampledStep step = block({7, 5, 8});  // 5 after 7: the grammar wants 8
  EXPECT_EQ(step.num_accepted[0], 1);
  EXPECT_THAT(std::span(step.picks).first(2), ElementsAre(7, 8));
  EXPECT_EQ(calls_, (Texts{{kEndOfThought}, {kEndOfThought, 7}}));
}

// Field report 29: requests killed by a draft that no text can have.
TEST_F(Masked, DraftsThatAreNoTokensOfTheVocabularyAreRejected) {
  join({}, {kEndOfThought});
  for (const int32_t bad : {-1, 50, 248069}) {
    const SampledStep step = block({bad, 8});
    EXPECT_EQ(step.num_accepted[0], 0) << bad;
    EXPECT_EQ(step.picks[0], 7);
  }
}

// Field report 30: grammars that were fed tokens after their end.
TEST_F(Masked, NothingIsAskedAfterTheEnd) {
  join({}, {kEndOfThought, 7, 8, 7});
  const SampledStep step = block({kStop, 7, 8});
  EXPECT_GE(step.num_accepted[0], 1);
  EXPECT_EQ(step.picks[0], kStop);
  EXPECT_EQ(calls_, (Texts{{kEndOfThought, 7, 8, 7}}));
}

TEST_F(Masked, SampledTokensAreAllowedOnes) {
  join({.temperature = 2.0F, .top_k = 3, .seed = 4}, {kEndOfThought});
  for (int i = 0; i < 3; ++i) {  // top-k is of what the mask left
    const SampledStep step = block({});
    EXPECT_EQ(step.picks[0], i % 2 == 0 ? 7 : 8);
    harness_.sampler().commit(0, step.picks);
  }
  EXPECT_EQ(block({}).picks[0], kStop);
}

TEST_F(Masked, ChosenDraftsAreVerifiedUnderTheMask) {
  for (const DraftSampling sampling : {DraftSampling::kRejection, DraftSampling::kBlock}) {
    join({.temperature = 1.0F, .draft_sampling = sampling}, {kEndOfThought});
    const SampledStep good = block({7, 8});
    EXPECT_EQ(good.num_accepted[0], 2);
    EXPECT_EQ(good.picks[2], 7);
    const SampledStep bad = block({7, 5});
    EXPECT_EQ(bad.num_accepted[0], 1);
    EXPECT_EQ(bad.picks[1], 8);
    harness_.sampler().leave(0);
  }
}

TEST_F(Masked, DraftsAreReadBackOnlyWhereAMaskNeedsThem) {
  join({}, {1});
  harness_.join(1, {.temperature = 1.0F}, {1});
  const auto needs = [&](int32_t slot, int64_t rows) {
    const SamplerPart part{.slot = slot, .num_rows = rows};
    return harness_.sampler().needs_draft_ids({&part, 1});
  };
  EXPECT_TRUE(needs(0, 3));
  EXPECT_FALSE(needs(0, 1));
  EXPECT_FALSE(needs(1, 3));
  EXPECT_FALSE(needs(-1, 3));
}

TEST_F(Masked, AMaskThatAllowsNothingAllowsTheStopIds) {
  SamplingParams params;
  params.token_mask = [](auto, auto) { return true; };
  params.stop_token_ids = {kStop};
  harness_.join(1, params, {1});
  const auto step = [&] { return harness_.step({{.slot = 1, .logits = {harness_.random_row(1)}}}); };
  EXPECT_EQ(step().picks[0], kStop);
  harness_.sampler().leave(1);
  params.stop_token_ids.clear();
  harness_.join(1, params, {1});
  try {
    step();
    FAIL() << "a mask without any token";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_THAT(error.what(), HasSubstr("allows nothing"));
  }
}

TEST_F(Masked, MoreMaskedRowsThanThereIsRoomForAreRefused) {
  SamplingParams params;
  params.token_mask = [](auto, std::span<uint32_t> allowed) {
    allow(allowed, {3});
    return true;
  };
  harness_.join(0, params, {1});
  harness_.join(1, params, {1});
  const auto part = [&](int32_t slot) {
    return HarnessPart{.slot = slot, .logits = {5, harness_.random_row(1)}, .drafts = {3, 3, 3, 3}};
  };
  EXPECT_EQ(harness_.step({part(0)}).num_accepted[0], 4);
  EXPECT_THROW(harness_.step({part(0), part(1)}), Error);
}

}  // namespace
}  // namespace foretoken::test
