// Row policies change what the drafter remembers, never the text.
#include <gtest/gtest.h>

#include "test_model.h"
#include "tests/support/golden.h"

namespace foretoken::test {
namespace {

class RowPolicyTest : public ::testing::TestWithParam<RowPolicy> {
 protected:
  std::unique_ptr<GpuBackend> backend_ = open_test_device();
  Golden golden_{"tiny-dense.golden.safetensors"};
};

/// Forced rounds of d drafts with a accepted: rows and keys held, and the keys that are wanted next.
TEST_P(RowPolicyTest, RowsAndKeysFollowThePolicy) {
  TestModel model(*backend_, "tiny-dense", {.rows = GetParam()});
  MtpProposer& proposer = model.proposer();
  const Tensor& hidden = model.runner().model().hidden();
  const auto state = proposer.alloc_state(200);
  int64_t num_rows = 0;
  int64_t first_key = 0;
  for (const auto& [drafted, accepted] : {std::pair{3, 0}, {3, 3}, {1, 1}, {1, 0}, {4, 2}, {2, 2}, {5, 1}}) {
    const int64_t newest_key = first_key + (num_rows == 0 ? 0 : 1);
    const std::vector<int32_t> ids(static_cast<size_t>(newest_key - first_key + 1), 7);
    static_cast<void>(propose_one(model.stream(), proposer, ids, hidden, drafted, *state));
    num_rows += static_cast<int64_t>(ids.size()) + drafted - 1;
    EXPECT_EQ(proposer.num_rows(*state), num_rows);
    EXPECT_EQ(proposer.last_pair_key(*state), newest_key + drafted - 1);

    const RowsAfterVerify expected = rows_after_verify(GetParam(), drafted, accepted);
    EXPECT_EQ(proposer.after_verify(accepted, *state), expected.num_left_out);
    num_rows -= expected.num_dropped;
    EXPECT_EQ(proposer.num_rows(*state), num_rows);
    const int64_t last_key = newest_key + drafted - 1 - expected.num_dropped;
    EXPECT_EQ(proposer.last_pair_key(*state), num_rows == 0 ? std::nullopt : std::optional(last_key));
    first_key = newest_key + 1 + expected.num_left_out;
    EXPECT_EQ(proposer.first_missing_key(*state), first_key);
  }
  EXPECT_EQ(proposer.kv_blocks(*state).empty(), GetParam() != RowPolicy::kExact);
}

TEST_P(RowPolicyTest, TheTextIsTheGoldenOneAtEveryDepth) {
  TestModel model(*backend_, "tiny-dense", {.rows = GetParam()});
  for (const int64_t i : {0, 3, 25, 30}) {
    const std::vector<int32_t> prompt = golden_.i32("prompt_" + std::to_string(i));
    for (const int64_t depth : {1, 2, 4, 15}) {
      EXPECT_EQ(model.generate(prompt, depth).output_token_ids, golden_.i32("greedy_" + std::to_string(i))) << i << ", " << depth;
    }
  }
}

/// Plain rounds in between park rows that the policy may not want.
TEST_P(RowPolicyTest, PausesAndForcedAcceptCountsGiveThePlainText) {
  TestModel model(*backend_, "tiny-dense", {.rows = GetParam()});
  GenerationOptions options{.max_tokens = 80, .num_speculative_tokens = 0};
  const std::vector<int32_t> prompt = golden_.i32("prompt_30");
  const std::vector<int32_t> plain = model.generator().generate(prompt, options).output_token_ids;
  options.num_speculative_tokens = 6;
  options.depth_pattern = {6, 0, 0, 3, 1, 0, 6};
  options.forced = {.pattern = {0, 2, 6, 1}, .continuation = plain};
  EXPECT_EQ(model.generator().generate(prompt, options).output_token_ids, plain);
}

/// A moved state goes on as the one it was taken from would have.
TEST_P(RowPolicyTest, RowsThatMoveKeepTheirKeys) {
  TestModel model(*backend_, "tiny-dense", {.rows = GetParam()});
  MtpProposer& proposer = model.proposer();
  const Tensor& hidden = model.runner().model().hidden();
  auto state = proposer.alloc_state(50);
  const std::vector<int32_t> ids{7, 8, 9};
  static_cast<void>(propose_one(model.stream(), proposer, ids, hidden, 4, *state));
  proposer.after_verify(3, *state);
  const int64_t num_rows = proposer.num_rows(*state);
  const int64_t first_key = proposer.first_missing_key(*state);
  DrafterKv kv = proposer.take_kv(*state);
  state = proposer.alloc_state(0);
  EXPECT_THROW(proposer.install_kv(kv, first_key + 1, *state), Error);
  proposer.install_kv(kv, first_key, *state);
  EXPECT_EQ(proposer.num_rows(*state), num_rows);
  EXPECT_EQ(proposer.first_missing_key(*state), first_key);

  kv = proposer.take_kv(*state);
  state = proposer.alloc_state(0);
  proposer.install_kv(kv, 2, *state);  // a prefix in which every key has its row
  EXPECT_EQ(proposer.first_missing_key(*state), 2);
  EXPECT_EQ(proposer.last_pair_key(*state).value_or(1), 1);
  EXPECT_LE(proposer.num_rows(*state), 2);
}

/// Chains that end early change how much is verified at once, and nothing else.
TEST(ConfidenceStop, TheTextIsTheGoldenOneAndFewerDraftsAreMade) {
  const auto backend = open_test_device();
  const Golden golden("tiny-dense.golden.safetensors");
  TestModel model(*backend, "tiny-dense", {.max_drafts = 6, .confidence_stop = 0.5});
  TestModel whole(*backend, "tiny-dense", {.max_drafts = 6});
  int64_t drafted = 0;
  int64_t drafted_whole = 0;
  for (const int64_t i : {0, 3, 25, 30}) {
    const std::vector<int32_t> prompt = golden.i32("prompt_" + std::to_string(i));
    const GenerationResult result = model.generate(prompt, 6);
    EXPECT_EQ(result.output_token_ids, golden.i32("greedy_" + std::to_string(i))) << i;
    drafted += result.speculation.drafted;
    drafted_whole += whole.generate(prompt, 6).speculation.drafted;
  }
  EXPECT_LT(drafted, drafted_whole);
}

INSTANTIATE_TEST_SUITE_P(Policies, RowPolicyTest,
                         ::testing::Values(RowPolicy::kExact, RowPolicy::kRefeedAccepted, RowPolicy::kTrim),
                         [](const auto& instance) {
                           if (instance.param == RowPolicy::kTrim) return "Trim";
                           return instance.param == RowPolicy::kExact ? "Exact" : "RefeedAccepted";
                         });

}  // namespace
}  // namespace foretoken::test
