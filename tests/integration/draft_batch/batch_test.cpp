// A sequence's drafts, log-probabilities and cache rows have the bits of its solo run, whatever it is drafted with.
#include <gtest/gtest.h>

#include <algorithm>

#include "batch_model.h"
#include "tests/support/gated_device.h"

namespace foretoken::test {
namespace {

constexpr int32_t kSequences = 64;
constexpr int64_t kMaxDrafts = 6;
constexpr int64_t kMaxPrompt = 80;
constexpr int64_t kBudget = 160;

MtpProposerOptions proposer_options(DType cache_dtype) {
  return {.max_seq_len = kBudget,
          .max_sequences = kSequences,
          .max_drafts = kMaxDrafts,
          .max_append_rows = kMaxPrompt,
          .cache_dtype = cache_dtype,
          .measure_log_probabilities = true};
}

/// The same sequences twice: drafted for together, and each alone.
class TwinRun {
 public:
  TwinRun(BatchModel& model, DType cache_dtype, uint64_t seed)
      : model_(model),
        together_(model, proposer_options(cache_dtype)),
        alone_(model, proposer_options(cache_dtype)),
        generator_(seed) {
    for (int32_t i = 0; i < kSequences; ++i) {
      shared_.push_back(together_.proposer().alloc_state(kBudget));
      solo_.push_back(alone_.proposer().alloc_state(kBudget));
      if (i % 3 != 0) append_prompt(draw(1, kMaxPrompt), *shared_.back(), *solo_.back());
    }
  }

  void append_prompt(int64_t num_rows, ProposerState& shared, ProposerState& solo) {
    std::vector<int32_t> ids(static_cast<size_t>(num_rows));
    for (int32_t& id : ids) id = model_.random_id(generator_);
    const Tensor hidden = model_.hidden().rows(draw(0, BatchModel::kHiddenRows - num_rows), num_rows);
    together_.proposer().append_rows(model_.stream(), ids, hidden, LinearPrecision::kExact, shared);
    alone_.proposer().append_rows(model_.stream(), ids, hidden, LinearPrecision::kExact, solo);
  }

  /// One propose over `width` sequences in random order, with random rows and depths.
  void round(size_t width) {
    std::vector<size_t> order(kSequences);
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::ranges::shuffle(order, generator_);
    std::vector<std::vector<int32_t>> ids(width);
    std::vector<DraftPart> parts;
    for (size_t b = 0; b < width; ++b) {
      ids[b].resize(static_cast<size_t>(draw(1, draw(0, 1) == 0 ? 2 : kMaxDrafts + 1)));
      for (int32_t& id : ids[b]) id = model_.random_id(generator_);
      parts.push_back({.state = shared_[order[b]].get(),
                       .next_token_ids = ids[b],
                       .first_hidden_row = draw(0, BatchModel::kHiddenRows - static_cast<int64_t>(ids[b].size())),
                       .num_drafts = draw(0, kMaxDrafts)});
    }
    const BatchDrafter::Drafted got = together_.propose(parts);
    for (size_t b = 0; b < width; ++b) {
      DraftPart part = parts[b];
      part.state = solo_[order[b]].get();
      const BatchDrafter::Drafted expected = alone_.propose({&part, 1});
      EXPECT_EQ(got.blocks[b], expected.blocks[0]) << "part " << b << " of " << width;
      EXPECT_EQ(got.blocks[b][0], ids[b].back());
      EXPECT_EQ(got.logprobs[b], expected.logprobs[0]) << "part " << b << " of " << width;
      const int64_t accepted = draw(0, part.num_drafts);
      together_.proposer().after_verify(accepted, *parts[b].state);
      alone_.proposer().after_verify(accepted, *part.state);
    }
  }

  void expect_equal_rows() {
    int64_t num_rows = 0;
    for (size_t i = 0; i < shared_.size(); ++i) {
      const DrafterKv got = together_.proposer().take_kv(*shared_[i]);
      const DrafterKv expected = alone_.proposer().take_kv(*solo_[i]);
      EXPECT_EQ(got.num_rows, expected.num_rows);
      num_rows += got.num_rows;
      EXPECT_TRUE(together_.rows(got) == alone_.rows(expected)) << "rows of sequence " << i;
    }
    EXPECT_GT(num_rows, 0);
  }

  [[nodiscard]] MtpProposer& together() { return together_.proposer(); }

 private:
  int64_t draw(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(generator_); }

  BatchModel& model_;
  BatchDrafter together_;
  BatchDrafter alone_;
  std::mt19937_64 generator_;
  std::vector<std::unique_ptr<ProposerState>> shared_;
  std::vector<std::unique_ptr<ProposerState>> solo_;
};

struct Precision {
  const char* name;
  const char* checkpoint;
  DraftFormats formats{};
  DType cache_dtype = DType::kBF16;
};

DraftFormats all_in(WeightFormat format) { return {.linears = format, .fc = format, .experts = format, .lm_head = format}; }

class DraftBatchTest : public ::testing::TestWithParam<Precision> {};

TEST_P(DraftBatchTest, EverySequenceHasTheBitsOfItsSoloRun) {
  const auto backend = open_test_device();
  BatchModel model(*backend, GetParam().checkpoint, GetParam().formats);
  TwinRun run(model, GetParam().cache_dtype, 11);
  EXPECT_TRUE(run.together().head().fused_draft());
  for (const size_t width : {1, 2, 3, 5, 8, 13, 33, 64, 7, 1}) run.round(width);
  run.expect_equal_rows();
}

constexpr WeightFormat kBF16 = WeightFormat::kBF16;
constexpr WeightFormat kRow = WeightFormat::kFp8Row;
constexpr WeightFormat kBlock = WeightFormat::kFp8Block;
constexpr WeightFormat kFp4 = WeightFormat::kNvfp4;
constexpr const char* kDense = "tiny-dense";
constexpr const char* kMoe = "tiny-moe";

INSTANTIATE_TEST_SUITE_P(
    Precisions, DraftBatchTest,
    ::testing::Values(Precision{"DenseBf16", kDense}, Precision{"DenseF32Cache", kDense, {}, DType::kF32},
                      Precision{"DenseFp8Cache", kDense, {}, DType::kE4M3}, Precision{"DenseFp8Row", kDense, all_in(kRow)},
                      Precision{"DenseFp8Block", kDense, all_in(kBlock)}, Precision{"DenseNvfp4", kDense, all_in(kFp4)},
                      Precision{"DenseMixed", kDense, {.linears = kFp4, .fc = kBF16, .lm_head = kBlock}},
                      Precision{"MoeBf16", kMoe}, Precision{"MoeFp8Cache", kMoe, {}, DType::kE4M3},
                      Precision{"MoeFp8Row", kMoe, all_in(kRow)}, Precision{"MoeFp8Block", kMoe, all_in(kBlock)},
                      Precision{"MoeNvfp4", kMoe, all_in(kFp4)}, Precision{"MoeExpertsNvfp4", kMoe, {.experts = kFp4}}),
    [](const auto& instance) { return instance.param.name; });

/// Without a fused LM head drafts come from logits, of every row of the batch.
TEST(DraftBatch, DraftsFromLogitsHaveTheBitsOfTheSoloRun) {
  const auto backend = make_gated_backend(open_test_device(), {.no_operator = {"linear_argmax"}});
  BatchModel model(*backend, kDense);
  TwinRun run(model, DType::kBF16, 12);
  EXPECT_FALSE(run.together().head().fused_draft());
  for (const size_t width : {3, 64, 1}) run.round(width);
  run.expect_equal_rows();
}

/// Nothing of a batch is changed when one of its parts cannot be.
TEST(DraftBatch, ARefusedBatchChangesNoState) {
  const auto backend = open_test_device();
  BatchModel model(*backend, kDense);
  BatchDrafter drafter(model, proposer_options(DType::kBF16));
  MtpProposer& proposer = drafter.proposer();
  const auto one = proposer.alloc_state(16);
  const auto two = proposer.alloc_state(16);
  const std::vector<int32_t> ids{5, 6};
  const auto part = [&](ProposerState& state, int64_t drafts) {
    return DraftPart{.state = &state, .next_token_ids = ids, .num_drafts = drafts};
  };
  const auto expect_refused = [&](std::vector<DraftPart> parts) {
    EXPECT_THROW(static_cast<void>(proposer.propose(model.stream(), parts, model.hidden())), Error);
    EXPECT_EQ(proposer.num_rows(*one), 0);
    EXPECT_EQ(proposer.num_rows(*two), 0);
  };
  expect_refused({part(*one, 2), part(*two, kMaxDrafts + 1)});
  expect_refused({part(*one, 2), part(*two, 2), part(*one, 2)});
  expect_refused(std::vector<DraftPart>(kSequences + 1, part(*one, 1)));
  static_cast<void>(drafter.propose(std::vector{part(*one, 2), part(*two, 0)}));
  EXPECT_EQ(proposer.num_rows(*one), 3);
  EXPECT_EQ(proposer.num_rows(*two), 2);
  EXPECT_EQ(proposer.num_drafted(*two), 0);
}

}  // namespace
}  // namespace foretoken::test
