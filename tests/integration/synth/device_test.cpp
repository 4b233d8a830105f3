// Real shapes (head_dim 256, 248320 ids, 256 experts) with random weights, cut to 4 layers, on the device that
// FORETOKEN_TEST_BACKEND selects: a short context gives what the CPU gives, and speculation changes no bit.
#include <gtest/gtest.h>

#include <cstdlib>
#include <ostream>
#include <random>
#include <string>

#include "tests/integration/generation/test_model.h"

namespace foretoken::test {
namespace {

struct DeviceCut {
  std::string name;
  std::string spec;
  uint64_t memory_gib;  // that its test takes on the host, and on a device that shares the host's memory
};

/// For the names of tests and messages.
void PrintTo(const DeviceCut& cut, std::ostream* out) { *out << cut.name; }

constexpr int64_t kContext = 20;  // more than a chunk and a block
constexpr int64_t kRows = 4;
constexpr double kTolerance = 1e-3;  // of a row's largest value, as for the golden values

std::vector<int32_t> random_ids(int64_t count, int64_t vocab_size, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<int32_t> ids(static_cast<size_t>(count));
  for (int32_t& id : ids) id = static_cast<int32_t>(random() % static_cast<uint64_t>(vocab_size));
  return ids;
}

/// Rows of a verify step after a prompt, the same ids on every device.
struct Step {
  std::vector<float> hidden;
  std::vector<float> logits;
};

Step verify_step(TestModel& model) {
  const int64_t vocab_size = model.config().vocab_size;
  TargetRunner& runner = model.runner();
  TargetSequence sequence = runner.create_sequence(kContext + kRows);
  runner.prefill(sequence, random_ids(kContext, vocab_size, 7), nullptr);
  const Buffer memory = model.backend().allocate(dtype_bytes(DType::kI32, kRows));
  const Tensor block = memory.tensor(DType::kI32, {kRows});
  const std::vector<int32_t> fed = random_ids(kRows, vocab_size, 8);
  model.stream().upload(std::as_bytes(std::span(fed)), block.view());
  runner.verify(sequence, block);
  static_cast<void>(runner.finish());
  return {.hidden = model.read(runner.model().hidden().rows(0, kRows)), .logits = model.read(runner.logits().rows(0, kRows))};
}

TestModelOptions options(DType activation_dtype) {
  return {.activation_dtype = activation_dtype,
          .prefill_chunk = 16,
          .max_append_rows = 16,
          .max_seq_len = 64,
          .max_drafts = 3,
          .self_check = true};
}

/// What the CPU gives. Its model is gone afterwards: memory may have room for one.
Step reference_step(const std::string& spec) {
  const auto cpu = open_cpu();
  TestModel model(*cpu, spec, options(DType::kF32));
  return verify_step(model);
}

/// Drafts of all numbers of rows, some of them accepted, give the plain text, and logits the bits of a model that never drafts.
void expect_drafts_change_no_bit(TestModel& model) {
  const std::vector<int32_t> prompt = random_ids(kContext, model.config().vocab_size, 9);
  GenerationOptions plainly{.max_tokens = 6, .num_speculative_tokens = 0};
  const std::vector<int32_t> plain = model.generator().generate(prompt, plainly).output_token_ids;
  GenerationOptions drafted{.max_tokens = 6, .depth_pattern = {3, 1, 0, 2}};
  drafted.forced = {.pattern = {2, 0, 0}, .continuation = plain};
  const GenerationResult result = model.generator().generate(prompt, drafted);
  EXPECT_EQ(result.output_token_ids, plain);
  EXPECT_GE(result.self_check.rows_checked, 5);
  EXPECT_EQ(result.self_check.rows_different, 0);
}

class SynthDeviceTest : public ::testing::TestWithParam<DeviceCut> {
 protected:
  void SetUp() override {
    if (std::getenv("FORETOKEN_TEST_BACKEND") == nullptr) GTEST_SKIP() << "FORETOKEN_TEST_BACKEND names no other device";
    if (!has_free_memory(GetParam().memory_gib)) GTEST_SKIP() << "needs " << GetParam().memory_gib << " GiB of free memory";
  }
};

TEST_P(SynthDeviceTest, AVerifyStepGivesWhatTheCpuGivesAndDraftsChangeNoBit) {
  const Step expected = reference_step(GetParam().spec);
  const auto backend = open_test_device();
  TestModel model(*backend, GetParam().spec, options(DType::kF32));
  ASSERT_EQ(model.config().vocab_size, 248320);
  ASSERT_EQ(model.config().head_dim, 256);
  const Step step = verify_step(model);
  EXPECT_LT(relative_error(step.hidden, expected.hidden, model.config().hidden_size), kTolerance);
  EXPECT_LT(relative_error(step.logits, expected.logits, model.config().vocab_size), kTolerance);
  expect_drafts_change_no_bit(model);
}

// Rounded activations make random routers pick other experts than the CPU's, so there is nothing to compare with.
TEST_P(SynthDeviceTest, DraftsChangeNoBitWithTheActivationsThatTheDevicePrefers) {
  const auto backend = open_test_device();
  TestModel model(*backend, GetParam().spec, options(backend->capabilities().activation_dtype({})));
  expect_drafts_change_no_bit(model);
}

INSTANTIATE_TEST_SUITE_P(Cuts, SynthDeviceTest,
                         ::testing::Values(DeviceCut{"Dense08B", "synth:qwen3.5-0.8b:layers=4", 4},
                                           DeviceCut{"Moe35BA3B", "synth:qwen3.5-35b-a3b:layers=4", 12}),
                         [](const auto& instance) { return instance.param.name; });

}  // namespace
}  // namespace foretoken::test
