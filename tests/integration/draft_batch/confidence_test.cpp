// Chains that end with their first unsure draft.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "batch_model.h"
#include "core/error.h"
#include "tests/support/gated_device.h"

namespace foretoken::test {
namespace {

constexpr int32_t kSequences = 13;
constexpr int64_t kDrafts = 5;

MtpProposerOptions proposer_options(std::optional<double> stop) {
  return {.max_seq_len = 64,
          .max_sequences = kSequences,
          .max_drafts = kDrafts,
          .max_append_rows = 16,
          .measure_log_probabilities = true,
          .confidence_stop = stop};
}

/// Parts with a row each and depths from 0 up.
struct Parts {
  Parts(BatchModel& model, MtpProposer& proposer) {
    std::mt19937_64 generator(3);
    for (int32_t i = 0; i < kSequences; ++i) {
      states.push_back(proposer.alloc_state(64));
      ids.push_back({model.random_id(generator)});
    }
    for (int32_t i = 0; i < kSequences; ++i) {
      const auto b = static_cast<size_t>(i);
      list.push_back(
          {.state = states[b].get(), .next_token_ids = ids[b], .first_hidden_row = i, .num_drafts = i % (kDrafts + 1)});
    }
  }

  std::vector<std::unique_ptr<ProposerState>> states;
  std::vector<std::vector<int32_t>> ids;
  std::vector<DraftPart> list;
};

TEST(ConfidenceStop, AChainEndsWithItsFirstUnsureDraftAndIsOtherwiseTheSame) {
  const auto backend = open_test_device();
  BatchModel model(*backend, "tiny-dense");
  BatchDrafter whole(model, proposer_options(std::nullopt));
  EXPECT_FALSE(whole.proposer().may_stop_early());
  Parts whole_parts(model, whole.proposer());
  const BatchDrafter::Drafted expected = whole.propose(whole_parts.list);
  std::vector<float> all;
  for (const auto& line : expected.logprobs) all.insert(all.end(), line.begin(), line.end());
  std::ranges::sort(all);

  for (const size_t rank : {size_t{0}, all.size() / 4, all.size() / 2, all.size() - 1}) {
    const double stop = std::exp(double{all[rank]}) * (1.0 + 1e-6);
    BatchDrafter unsure(model, proposer_options(stop));
    EXPECT_TRUE(unsure.proposer().may_stop_early());
    Parts parts(model, unsure.proposer());
    const BatchDrafter::Drafted got = unsure.propose(parts.list);
    for (size_t b = 0; b < parts.list.size(); ++b) {
      const auto& logprobs = expected.logprobs[b];
      const auto unsure_draft = std::ranges::find_if(logprobs, [&](float logprob) { return logprob < std::log(stop); });
      const auto num_drafts = std::min<int64_t>(unsure_draft - logprobs.begin() + 1, parts.list[b].num_drafts);
      EXPECT_EQ(unsure.proposer().num_drafted(*parts.states[b]), num_drafts);
      EXPECT_THROW(unsure.proposer().after_verify(num_drafts + 1, *parts.states[b]), Error);
      const auto count = static_cast<size_t>(num_drafts);
      EXPECT_TRUE(std::ranges::equal(std::span(got.blocks[b]).first(1 + count), std::span(expected.blocks[b]).first(1 + count)));
      EXPECT_TRUE(std::ranges::equal(std::span(got.logprobs[b]).first(count), std::span(logprobs).first(count)));
    }
  }
}

TEST(ConfidenceStop, TheProbabilityMustLieBetweenZeroAndOne) {
  const auto backend = open_test_device();
  BatchModel model(*backend, "tiny-dense");
  for (const double stop : {0.0, 1.0, -0.5, 2.0, std::numeric_limits<double>::quiet_NaN()}) {
    try {
      BatchDrafter drafter(model, proposer_options(stop));
      ADD_FAILURE() << stop;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << error.what();
    }
  }
}

TEST(ConfidenceStop, IsRefusedWithTheReasonWhereNothingIsMeasured) {
  const auto backend = make_gated_backend(open_test_device(), {.no_operator = {"linear_argmax"}});
  BatchModel model(*backend, "tiny-dense");
  try {
    BatchDrafter drafter(model, proposer_options(0.5));
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("needs a fused LM head"));
  }
}

}  // namespace
}  // namespace foretoken::test
