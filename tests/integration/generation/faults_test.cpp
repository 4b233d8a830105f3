// The tests can fail: each deliberate bug is caught by the kind of check that the other files of this folder make.
#ifdef FORETOKEN_FAULTS

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "core/fault.h"
#include "test_model.h"
#include "tests/support/golden.h"

namespace foretoken::test {
namespace {

/// Everything is built after the fault is on, since some faults are fixed when a Program is recorded.
class FaultsTest : public ::testing::TestWithParam<std::string> {
 protected:
  ~FaultsTest() override { fault::inject(Fault::kNone); }

  struct Checks {
    bool ids_are_golden = true;
    bool logits_are_plain = true;
    bool acceptance_is_golden = true;
    bool drafter_rows_are_complete = true;
  };
  [[nodiscard]] Checks run_with(Fault fault);

  Golden golden_{GetParam() + ".golden.safetensors"};
};

FaultsTest::Checks FaultsTest::run_with(Fault fault) {
  fault::inject(fault);
  const auto backend = open_cpu();
  TestModel model(*backend, GetParam(), {.self_check = true});
  std::ifstream file(data_path("golden/" + GetParam() + ".json"));
  const nlohmann::json expected = nlohmann::json::parse(file);
  Checks checks;
  for (size_t i : {0U, 1U, 25U, 32U}) {
    const std::vector<int32_t> prompt = golden_.i32("prompt_" + std::to_string(i));
    const GenerationResult result = model.generate(prompt, 4);
    checks.ids_are_golden &= result.output_token_ids == golden_.i32("greedy_" + std::to_string(i));
    checks.logits_are_plain &= result.self_check.rows_checked > 0 && result.self_check.rows_different == 0;
    const auto per_round = expected["prompts"][i]["accepted_per_round"]["4"].get<std::vector<int64_t>>();
    checks.acceptance_is_golden &= result.speculation.accepted_per_round == per_round;
  }

  const std::vector<int32_t> prompt = golden_.i32("prompt_25");
  TargetSequence sequence = model.runner().create_sequence(100);
  const auto state = model.proposer().alloc_state(100);
  const Tensor& hidden = model.runner().model().hidden();
  model.runner().prefill(sequence, prompt, [&](int64_t, int64_t rows) {
    model.proposer().append_rows(model.stream(), std::span(prompt).subspan(1), hidden.rows(0, rows - 1), LinearPrecision::kExact,
                                 *state);
  });
  int64_t fresh = 1;
  for (int round = 0; round < 12; ++round) {
    const Tensor block = propose_one(model.stream(), model.proposer(), model.runner().read_picks(fresh), hidden, 4, *state);
    model.runner().verify(sequence, block);
    const int64_t newest_key = sequence.num_tokens() - 1;
    fresh = model.runner().finish().front().num_accepted + 1;
    model.proposer().after_verify(fresh - 1, *state);
    checks.drafter_rows_are_complete &= model.proposer().last_pair_key(*state) == newest_key;
  }
  return checks;
}

TEST_P(FaultsTest, WithoutAFaultEveryCheckHolds) {
  const Checks checks = run_with(Fault::kNone);
  EXPECT_TRUE(checks.ids_are_golden);
  EXPECT_TRUE(checks.logits_are_plain);
  EXPECT_TRUE(checks.acceptance_is_golden);
  EXPECT_TRUE(checks.drafter_rows_are_complete);
}

TEST_P(FaultsTest, AStateThatIsNotCommittedIsCaughtByTheLogits) {
  const Checks checks = run_with(Fault::kStateNotCommitted);
  EXPECT_FALSE(checks.logits_are_plain);
  EXPECT_FALSE(checks.ids_are_golden);
}

TEST_P(FaultsTest, AHiddenStateOffByOneIsCaughtByTheAcceptanceAndChangesNoText) {
  const Checks checks = run_with(Fault::kHiddenOffByOne);
  EXPECT_FALSE(checks.acceptance_is_golden);
  EXPECT_TRUE(checks.ids_are_golden);
  EXPECT_TRUE(checks.logits_are_plain);
}

TEST_P(FaultsTest, ALostDrafterRowIsCaughtByThePairKeys) {
  const Checks checks = run_with(Fault::kDrafterRowLost);
  EXPECT_FALSE(checks.drafter_rows_are_complete);
  EXPECT_TRUE(checks.ids_are_golden);
}

TEST_P(FaultsTest, OneUlpInAVerifyRowIsCaughtByTheLogits) { EXPECT_FALSE(run_with(Fault::kVerifyUlp).logits_are_plain); }

TEST_P(FaultsTest, AStaleBlockTableIsCaughtByTheGoldenIds) { EXPECT_FALSE(run_with(Fault::kStaleBlockTable).ids_are_golden); }

TEST_P(FaultsTest, ADroppedBonusTokenIsCaughtByTheGoldenIds) { EXPECT_FALSE(run_with(Fault::kBonusTokenDropped).ids_are_golden); }

INSTANTIATE_TEST_SUITE_P(Checkpoints, FaultsTest, ::testing::Values("tiny-dense", "tiny-moe"),
                         [](const auto& instance) { return instance.param == "tiny-dense" ? "TinyDense" : "TinyMoe"; });

}  // namespace
}  // namespace foretoken::test

#endif  // FORETOKEN_FAULTS
