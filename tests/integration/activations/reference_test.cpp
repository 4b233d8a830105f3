// BF16 activations through every layer on the float64 references, which take all dtypes: so the path is tested where no device
// has it.
#include <gtest/gtest.h>

#include "test_model.h"
#include "tests/support/golden.h"
#include "tests/support/reference_backend.h"

namespace foretoken::test {
namespace {

constexpr int64_t kPromptTokens = 6;
constexpr int64_t kDrafts = 3;

class Bf16ReferenceTest : public ::testing::TestWithParam<std::string> {
 protected:
  [[nodiscard]] TestModel make(DType activation_dtype) {
    return TestModel(backend_, GetParam(),
                     {.activation_dtype = activation_dtype,
                      .prefill_chunk = 16,
                      .max_append_rows = 16,
                      .max_seq_len = 32,
                      .max_drafts = kDrafts,
                      .keep_logits = true});
  }
  /// The prompt goes in; its drafter rows too.
  TargetSequence prefill(TestModel& model, ProposerState& state) const {
    TargetSequence sequence = model.runner().create_sequence(32);
    model.runner().prefill(sequence, prompt_, [&](int64_t, int64_t rows) {
      model.proposer().append_rows(model.stream(), std::span(prompt_).subspan(1),
                                   model.runner().model().hidden().rows(0, rows - 1), LinearPrecision::kExact, state);
    });
    return sequence;
  }

  ReferenceBackend backend_;
  std::vector<int32_t> prompt_ = [] {
    std::vector<int32_t> ids = Golden(GetParam() + ".golden.safetensors").i32("prompt_0");
    ids.resize(kPromptTokens);
    return ids;
  }();
};

TEST_P(Bf16ReferenceTest, HiddenStatesAreNearThoseOfFloat32Activations) {
  std::vector<std::vector<float>> hidden;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    TestModel model = make(dtype);
    EXPECT_EQ(model.runner().model().hidden().dtype(), dtype);
    const auto state = model.proposer().alloc_state(16);
    const TargetSequence sequence = prefill(model, *state);
    hidden.push_back(model.read(model.runner().model().hidden().rows(0, 1)));
  }
  const double error = relative_error(hidden[1], hidden[0], static_cast<int64_t>(hidden[0].size()));
  EXPECT_LT(error, 0.05);
  EXPECT_GT(error, 1e-4) << "nothing was rounded";
}

/// Drafts, a verify step and the plain steps over the same tokens: equal logits, bit for bit.
TEST_P(Bf16ReferenceTest, AVerifyStepGivesTheLogitsOfPlainSteps) {
  TestModel model = make(DType::kBF16);
  TargetRunner& runner = model.runner();
  std::vector<int32_t> block(1 + kDrafts);
  std::vector<float> verified;
  {
    const auto state = model.proposer().alloc_state(16);
    TargetSequence sequence = prefill(model, *state);
    const Tensor block_token_ids =
        propose_one(model.stream(), model.proposer(), runner.read_picks(1), runner.model().hidden(), kDrafts, *state);
    runner.verify(sequence, block_token_ids);
    static_cast<void>(runner.finish());
    model.stream().download(block_token_ids.view(), std::as_writable_bytes(std::span(block)));
    verified = model.read(runner.logits().rows(0, 1 + kDrafts));
  }
  const auto state = model.proposer().alloc_state(16);
  TargetSequence sequence = prefill(model, *state);
  std::vector<float> plain;
  for (const int32_t id : block) {
    runner.decode(sequence, id);
    const std::vector<float> logits = model.read(runner.logits().rows(0, 1));
    plain.insert(plain.end(), logits.begin(), logits.end());
  }
  EXPECT_EQ(verified, plain);
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, Bf16ReferenceTest, ::testing::Values("tiny-dense", "tiny-moe"),
                         [](const auto& instance) { return instance.param == "tiny-dense" ? "TinyDense" : "TinyMoe"; });

}  // namespace
}  // namespace foretoken::test
