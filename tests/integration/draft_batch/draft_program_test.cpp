// A caller's own passes in place of the proposer's Programs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "batch_model.h"
#include "core/error.h"

namespace foretoken::test {
namespace {

constexpr int32_t kSequences = 8;

MtpProposerOptions proposer_options() {
  return {
      .max_seq_len = 64, .max_sequences = kSequences, .max_drafts = 4, .max_append_rows = 16, .measure_log_probabilities = true};
}

/// Records the passes that the binding describes, with a head of its own, for at most `max_sequences`.
class OwnPasses final : public DraftProgram {
 public:
  OwnPasses(GpuBackend& backend, const DraftProgramBinding& binding, int64_t max_sequences)
      : backend_(backend),
        binding_(binding),
        max_sequences_(max_sequences),
        head_(backend, binding.config, binding.weights, binding.embed_tokens, binding.lm_head,
              {.max_rows = binding.limits.max_rows(),
               .max_drafting_rows = binding.limits.max_sequences,
               .max_rope_rows = binding.limits.max_rows_of_passes(),
               .max_seq_len = binding.limits.max_seq_len,
               .cache_dtype = binding.kv.k_cache.dtype(),
               .activation_dtype = binding.activation_dtype,
               .chain = binding.chain,
               .token_map = binding.token_map}) {}

  [[nodiscard]] bool serves(const DraftBucket& bucket) const override { return bucket.num_sequences <= max_sequences_; }

  void run(Stream& stream, const DraftBucket& bucket, const Tensor& hidden) override {
    if (fails) throw Error(ErrorCode::kDeviceError, "no luck today");
    ++num_runs;
    Program& program = programs_[bucket];
    if (!program) program = backend_.record("own passes", [=, this](CommandList& cmd) { record(cmd, bucket, hidden); });
    stream.run(program);
  }

  int num_runs = 0;
  bool fails = false;

 private:
  void record(CommandList& cmd, const DraftBucket& bucket, const Tensor& hidden) const {
    const DraftMetadata& metadata = *binding_.metadata;
    const Tensor angles = head_.rope_angles(cmd, metadata.positions(bucket));
    MtpPass pass{.next_token_ids = metadata.next_token_ids(bucket),
                 .hidden = hidden,
                 .hidden_rows = metadata.hidden_rows(bucket),
                 .cos_sin = {},
                 .view = {}};
    for (int64_t i = 0; i < bucket.num_drafts; ++i) {
      pass.cos_sin = angles.rows(DraftMetadata::first_row(bucket, i), DraftMetadata::num_rows(bucket, i));
      pass.view = metadata.view(bucket, i);
      const Tensor drafts = binding_.draft_token_ids.at(i).rows(0, bucket.num_sequences);
      const Tensor logprobs = binding_.logprobs.at(i).rows(0, bucket.num_sequences);
      pass.hidden = head_.draft(cmd, pass, binding_.kv, drafts, logprobs);
      pass.hidden_rows = {};
      pass.next_token_ids = drafts;
    }
  }

  GpuBackend& backend_;
  const DraftProgramBinding& binding_;
  int64_t max_sequences_;
  MtpHead head_;
  std::map<DraftBucket, Program> programs_;
};

/// Proposers with and without an own program, over the same sequences.
class DraftProgramTest : public ::testing::Test {
 protected:
  DraftProgramTest() {
    for (int32_t i = 0; i < kSequences; ++i) {
      own_states_.push_back(own_.proposer().alloc_state(64));
      built_in_states_.push_back(built_in_.proposer().alloc_state(64));
    }
  }

  void expect_equal_round(size_t width) {
    std::vector<std::vector<int32_t>> ids(width);
    std::vector<DraftPart> own;
    std::vector<DraftPart> built_in;
    for (size_t b = 0; b < width; ++b) {
      ids[b].assign(1 + (b + width) % 3, model_.random_id(generator_));
      own.push_back({.state = own_states_[b].get(),
                     .next_token_ids = ids[b],
                     .first_hidden_row = static_cast<int64_t>(b),
                     .num_drafts = 1 + static_cast<int64_t>(b + width) % 4});
      built_in.push_back(own.back());
      built_in.back().state = built_in_states_[b].get();
    }
    const BatchDrafter::Drafted got = own_.propose(own);
    const BatchDrafter::Drafted expected = built_in_.propose(built_in);
    EXPECT_EQ(got.blocks, expected.blocks) << width;
    EXPECT_EQ(got.logprobs, expected.logprobs) << width;
    for (size_t b = 0; b < width; ++b) {
      own_.proposer().after_verify(0, *own_states_[b]);
      built_in_.proposer().after_verify(0, *built_in_states_[b]);
    }
  }

  std::unique_ptr<GpuBackend> backend_ = open_test_device();
  BatchModel model_{*backend_, "tiny-moe"};
  BatchDrafter own_{model_, proposer_options()};
  BatchDrafter built_in_{model_, proposer_options()};
  std::vector<std::unique_ptr<ProposerState>> own_states_;
  std::vector<std::unique_ptr<ProposerState>> built_in_states_;
  std::mt19937_64 generator_{9};
};

TEST_F(DraftProgramTest, RunsEveryBatchThatItServesWithTheSameBits) {
  OwnPasses passes(*backend_, own_.proposer().binding(), kSequences);
  const InstalledDraftProgram installed(own_.proposer(), passes);
  for (const size_t width : {1, 3, 8, 2, 1}) expect_equal_round(width);
  EXPECT_EQ(passes.num_runs, 5);
}

TEST_F(DraftProgramTest, BatchesThatItDoesNotServeStayWithTheProposer) {
  OwnPasses passes(*backend_, own_.proposer().binding(), 2);
  {
    const InstalledDraftProgram installed(own_.proposer(), passes);
    for (const size_t width : {1, 3, 8, 2}) expect_equal_round(width);
    EXPECT_EQ(passes.num_runs, 2);
  }
  expect_equal_round(1);
  EXPECT_EQ(passes.num_runs, 2) << "removed";
}

TEST_F(DraftProgramTest, OneAtATimeAndNoneWhereAFeatureIsUnmodelled) {
  OwnPasses passes(*backend_, own_.proposer().binding(), 2);
  const InstalledDraftProgram installed(own_.proposer(), passes);
  EXPECT_THROW(InstalledDraftProgram(own_.proposer(), passes), Error);
  expect_equal_round(1);
  EXPECT_EQ(passes.num_runs, 1) << "the first one is still there";

  MtpProposerOptions options = proposer_options();
  options.confidence_stop = 0.5;
  BatchDrafter stops(model_, options);
  try {
    const InstalledDraftProgram refused(stops.proposer(), passes);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    EXPECT_THAT(error.what(), ::testing::HasSubstr(stops.proposer().binding().unmodelled.front()));
  }
}

TEST_F(DraftProgramTest, WhatItThrowsChangesNoState) {
  OwnPasses passes(*backend_, own_.proposer().binding(), kSequences);
  const InstalledDraftProgram installed(own_.proposer(), passes);
  expect_equal_round(2);
  const int64_t num_rows = own_.proposer().num_rows(*own_states_[0]);
  passes.fails = true;
  const std::vector<int32_t> ids{1};
  const DraftPart part{.state = own_states_[0].get(), .next_token_ids = ids, .num_drafts = 3};
  EXPECT_THROW(static_cast<void>(own_.propose({&part, 1})), Error);
  EXPECT_EQ(own_.proposer().num_rows(*own_states_[0]), num_rows);
  EXPECT_EQ(own_.proposer().num_drafted(*own_states_[0]), 0);
  passes.fails = false;
  expect_equal_round(2);
}

}  // namespace
}  // namespace foretoken::test
