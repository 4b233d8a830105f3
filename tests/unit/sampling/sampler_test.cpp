// Slots, histories and seeds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/error.h"
#include "tests/unit/sampling/sampler_harness.h"

namespace foretoken::test {
namespace {

using testing::HasSubstr;

constexpr SamplerOptions kOptions{.vocab_size = 40,
                                  .max_sequences = 4,
                                  .max_rows = 32,
                                  .max_drafts = 7,
                                  .draft_candidates = 16,
                                  .max_logit_biases = 3,
                                  .max_stop_ids = 2};

SamplingParams with_penalties() {
  SamplingParams params;
  params.temperature = 0.9F;
  params.top_p = 0.95F;
  params.repetition_penalty = 1.3F;
  params.presence_penalty = 0.5F;
  params.frequency_penalty = 0.25F;
  params.seed = 17;
  params.draft_sampling = DraftSampling::kGreedy;
  return params;
}

/// Text of one sequence by steps of one row; processed rows and picks by output index. Logits of output i are random_row(100 +
/// i).
SampledStep plain_text(SamplerHarness& harness, int32_t slot, int64_t num_prompt, int64_t count) {
  SampledStep text;
  for (int64_t i = 0; i < count; ++i) {
    const SampledStep step = harness.step(
        {{.slot = slot, .first_position = num_prompt - 1 + i, .logits = {harness.random_row(100 + static_cast<uint64_t>(i))}}});
    text.picks.push_back(step.picks[0]);
    text.processed.push_back(step.processed[0]);
    harness.sampler().commit(slot, step.picks);
  }
  return text;
}

// Field report 32: rows of a block that counted the newest token twice.
TEST(Sampler, RowsOfABlockHaveTheHistoriesOfPlainSteps) {
  SamplerHarness harness(kOptions);
  const std::vector<int32_t> prompt{3, 3, 8};
  harness.join(0, with_penalties(), prompt);
  const SampledStep plain = plain_text(harness, 0, 3, 8);
  harness.join(2, with_penalties(), prompt);
  // The same text in blocks whose drafts are right: every row's bits are those of the step that knew the token.
  for (const size_t first : {size_t{0}, size_t{3}}) {
    const size_t rows = first == 0 ? 3 : 5;
    HarnessPart part{.slot = 2, .first_position = static_cast<int64_t>(2 + first), .logits = {}};
    for (size_t j = 0; j < rows; ++j) {
      part.logits.push_back(harness.random_row(100 + first + j));
      if (j > 0) part.drafts.push_back(plain.picks[first + j - 1]);
    }
    const SampledStep step = harness.step({part});
    ASSERT_EQ(step.num_accepted[0], static_cast<int32_t>(rows - 1));
    for (size_t j = 0; j < rows; ++j) {
      EXPECT_EQ(step.processed[j], plain.processed[first + j]) << "output " << first + j;
      EXPECT_EQ(step.picks[j], plain.picks[first + j]);
    }
    harness.sampler().commit(2, step.picks);
  }
}

TEST(Sampler, RejectedDraftsLeaveNoTraceInTheHistory) {
  SamplerHarness harness(kOptions);
  const std::vector<int32_t> prompt{3, 3, 8};
  harness.join(0, with_penalties(), prompt);
  const SampledStep plain = plain_text(harness, 0, 3, 6);
  harness.join(1, with_penalties(), prompt);
  for (size_t i = 0; i < 6; ++i) {
    const int32_t wrong = (plain.picks[i] + 1) % 40;
    const auto seed = 100 + static_cast<uint64_t>(i);
    const SampledStep step =
        harness.step({{.slot = 1,
                       .first_position = static_cast<int64_t>(2 + i),
                       .logits = {harness.random_row(seed), harness.random_row(seed + 1), harness.random_row(seed + 2)},
                       .drafts = {wrong, wrong}}});
    ASSERT_EQ(step.num_accepted[0], 0);
    EXPECT_EQ(step.picks[0], plain.picks[i]);
    EXPECT_EQ(step.processed[0], plain.processed[i]);
    harness.sampler().commit(1, std::span(step.picks).first(1));
  }
}

TEST(Sampler, ASequenceThatComesBackGoesOnAsBefore) {
  SamplerHarness harness(kOptions);
  const std::vector<int32_t> prompt{3, 3, 8};
  harness.join(0, with_penalties(), prompt);
  const SampledStep plain = plain_text(harness, 0, 3, 6);
  harness.sampler().leave(0);
  const std::vector<int32_t> emitted(plain.picks.begin(), plain.picks.begin() + 4);
  harness.join(3, with_penalties(), prompt, emitted);
  const SampledStep step = harness.step({{.slot = 3, .first_position = 6, .logits = {harness.random_row(104)}}});
  EXPECT_EQ(step.picks[0], plain.picks[4]);
  EXPECT_EQ(step.processed[0], plain.processed[4]);
}

TEST(Sampler, ASlotForgetsItsLastSequence) {
  SamplerHarness harness(kOptions);
  harness.join(0, with_penalties(), {3, 3, 8});
  const SampledStep fresh = plain_text(harness, 0, 3, 4);
  harness.sampler().leave(0);
  SamplingParams other = with_penalties();
  other.logit_bias = {{1, 5.0F}, {2, -INFINITY}};
  other.min_tokens = 9;
  other.stop_token_ids = {4};
  harness.join(0, other, {9, 9});
  plain_text(harness, 0, 2, 5);
  harness.sampler().leave(0);
  harness.join(0, with_penalties(), {3, 3, 8});
  EXPECT_EQ(plain_text(harness, 0, 3, 4).processed, fresh.processed);
}

TEST(Sampler, TextsDependOnTheSeedAndNotOnTheCompany) {
  SamplerHarness harness(kOptions);
  SamplingParams params;
  params.temperature = 1.5F;
  params.seed = 5;
  const auto alone = [&](uint64_t seed) {
    params.seed = seed;
    harness.join(0, params, {1});
    const std::vector<int32_t> text = plain_text(harness, 0, 1, 24).picks;
    harness.sampler().leave(0);
    return text;
  };
  const std::vector<int32_t> text = alone(5);
  EXPECT_EQ(alone(5), text);
  EXPECT_NE(alone(6), text);
  params.seed = 5;
  harness.join(3, params, {1});
  harness.join(1, with_penalties(), {2});
  for (int64_t i = 0; i < 24; ++i) {
    const std::vector<float> logits = harness.random_row(100 + static_cast<uint64_t>(i));
    const SampledStep step = harness.step({{.slot = -1, .first_position = i, .logits = {logits}},
                                           {.slot = 1, .first_position = i, .logits = {logits, logits, logits}, .drafts = {1, 2}},
                                           {.slot = 3, .first_position = i, .logits = {logits}}});
    EXPECT_EQ(step.picks[4], text[static_cast<size_t>(i)]);
  }
}

TEST(Sampler, SampledDraftsAreTheSameAloneAndTogether) {
  SamplerHarness harness(kOptions);
  SamplingParams params = with_penalties();
  params.draft_sampling = DraftSampling::kBlock;
  const auto logits = [&](int64_t pass, size_t, const std::vector<int32_t>&) {
    return harness.random_row(static_cast<uint64_t>(pass));
  };
  const HarnessPart part{.slot = 0, .first_position = 4, .logits = {}};
  harness.join(0, params, {3, 8}, {1, 2, 3});
  const auto alone = harness.draft({part}, 5, logits);
  harness.join(2, params, {1});
  const auto together =
      harness.draft({{.slot = 2, .first_position = 0, .logits = {}}, {.slot = -1, .logits = {}}, part}, 5, logits);
  EXPECT_EQ(together[2], alone[0]);
  EXPECT_NE(together[0], alone[0]);
}

TEST(Sampler, DraftsOfAGoodDrafterAreAccepted) {
  SamplerHarness harness(kOptions);
  SamplingParams params = with_penalties();  // the drafter's histories must be right, or the distributions would differ
  for (const DraftSampling sampling : {DraftSampling::kRejection, DraftSampling::kBlock}) {
    params.draft_sampling = sampling;
    params.top_k = 16;  // what a draft distribution holds
    harness.join(1, params, {3, 8}, {1, 2, 2});
    const auto logits = [&](int64_t pass, size_t, const std::vector<int32_t>&) {
      return harness.random_row(70 + static_cast<uint64_t>(pass));
    };
    HarnessPart part{.slot = 1, .first_position = 4, .logits = {}, .drafts = {}, .block_row = 1};
    const auto drafts = harness.draft({{.slot = -1, .logits = {}}, part}, 5, logits);
    part.drafts = drafts[1];
    for (int64_t row = 0; row < 6; ++row) part.logits.push_back(logits(row, 0, {}));
    const SampledStep step = harness.step({part});
    EXPECT_EQ(step.num_accepted[0], 5);
    EXPECT_TRUE(std::ranges::equal(std::span(step.picks).first(5), part.drafts));
    harness.sampler().leave(1);
  }
}

std::string refusal_of(const std::function<void()>& action, ErrorCode code = ErrorCode::kInvalidArgument) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code);
    return error.what();
  }
  return "";
}

TEST(Sampler, RefusesWhatItHasNoRoomFor) {
  SamplerHarness harness(kOptions);
  const auto joining = [&](SamplingParams params, int32_t slot = 0) {
    return refusal_of([&] { harness.join(slot, params, {1}); });
  };
  EXPECT_THAT(joining({.logit_bias = {{1, 1.0F}, {2, 1.0F}, {3, 1.0F}, {4, 1.0F}}}), HasSubstr("logit_bias"));
  EXPECT_THAT(joining({.min_tokens = 1, .stop_token_ids = {1, 2, 3}}), HasSubstr("stop ids"));
  EXPECT_THAT(joining({.token_mask = [](auto, auto) { return false; }}), HasSubstr("token masks"));
  EXPECT_THAT(joining({.top_p = 2.0F}), HasSubstr("top_p"));
  EXPECT_THAT(joining({}, 4), HasSubstr("slot"));
  EXPECT_THAT(joining({}, -1), HasSubstr("slot"));
  EXPECT_THAT(refusal_of([&] { harness.join(0, {}, {40}); }), HasSubstr("token id"));
  EXPECT_FALSE(harness.sampler().is_taken(0));
  harness.join(0, {}, {1});
  EXPECT_THAT(refusal_of([&] { harness.join(0, {}, {1}); }, ErrorCode::kInvalidState), HasSubstr("slot 0 is taken"));
  EXPECT_THAT(refusal_of([&] { harness.sampler().leave(1); }, ErrorCode::kInvalidState), HasSubstr("slot 1"));
  EXPECT_THAT(refusal_of([&] { harness.step({{.slot = 0, .logits = std::vector<std::vector<float>>(33)}}); }),
              HasSubstr("rows of a step"));
  EXPECT_THAT(refusal_of([&] { harness.step({{.slot = 2, .logits = {harness.random_row(1)}}}); }, ErrorCode::kInvalidState),
              HasSubstr("slot 2"));
}

TEST(Sampler, RefusesOptionsThatCannotBe) {
  TestDevice device;
  MetadataBuffer round;
  const auto making = [&](const SamplerOptions& options) {
    return refusal_of([&] { const Sampler sampler(device.backend(), round, options); });
  };
  SamplerOptions options = kOptions;
  options.draft_candidates = 257;
  EXPECT_THAT(making(options), HasSubstr("candidates"));
  options = kOptions;
  options.max_drafts = 32;
  EXPECT_THAT(making(options), HasSubstr("drafts"));
  options = kOptions;
  options.vocab_size = kMaxSampledVocab + 1;
  EXPECT_THAT(making(options), HasSubstr("vocabulary"));
}

}  // namespace
}  // namespace foretoken::test
