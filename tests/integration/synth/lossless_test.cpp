// Real shapes (head_dim 256, 248320 ids, 256 experts) with random weights, cut to 4 layers, at a context of 3,000 tokens:
// speculation changes no bit, the float64 reference agrees, and memory stays as it is. One test per model, so that one of them is
// alive at a time (the larger takes 11 GB) and its prompt is prefilled as rarely as possible.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <ostream>
#include <random>

#include "tests/integration/synth/reference_state.h"

namespace foretoken::test {
namespace {

constexpr int64_t kContext = 3000;
constexpr int64_t kMaxTokens = 36;
constexpr double kTolerance = 1e-3;  // of a row's largest value, as for the golden values
constexpr int64_t kMaxGrowthBytes = int64_t{4} << 20;

struct Cut {
  std::string name;
  std::string spec;
  DType cache_dtype;
  uint64_t memory_gib;  // that its test takes
};

/// For the names of tests and messages.
void PrintTo(const Cut& cut, std::ostream* out) { *out << cut.name; }

/// Round r drafts depths[r % its size] tokens, of which accepts[r % its size] are accepted (at most its depth).
struct Rounds {
  std::string name;
  std::vector<int64_t> depths;
  std::vector<int64_t> accepts;
};

const std::vector<Rounds>& forced_rounds() {
  static const std::vector<Rounds> rounds{{"K = 3 with pauses", {3, 3, 3, 3, 0}, {0, 3, 1, 2}},
                                          {"K = 15 with a pause", {15, 15, 0, 15}, {15, 0, 7, 7}},
                                          {"depths in any order", {0, 1, 15, 0, 0, 7, 2}, {3, 1, 9, 0, 2, 0, 2, 5}}};
  return rounds;
}

/// What forced rounds do to a text of kMaxTokens: the row of its step that each token is picked from, and the accept counts of
/// the rounds that drafted.
struct Outcome {
  std::vector<int64_t> row_of_token{0};  // the first comes from the prefill
  std::vector<int64_t> accepted;
};

Outcome outcome_of(const Rounds& rounds) {
  Outcome outcome;
  for (size_t r = 0; static_cast<int64_t>(outcome.row_of_token.size()) < kMaxTokens; ++r) {
    const int64_t depth = rounds.depths[r % rounds.depths.size()];
    const int64_t accepts = std::min(depth, rounds.accepts[r % rounds.accepts.size()]);
    const int64_t emitted = std::min(accepts + 1, kMaxTokens - static_cast<int64_t>(outcome.row_of_token.size()));
    for (int64_t row = 0; row < emitted; ++row) outcome.row_of_token.push_back(row);
    if (depth > 0) outcome.accepted.push_back(std::min(accepts, emitted));
  }
  return outcome;
}

std::vector<int32_t> random_ids(int64_t count, int64_t vocab_size, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<int32_t> ids(static_cast<size_t>(count));
  for (int32_t& id : ids) id = static_cast<int32_t>(random() % static_cast<uint64_t>(vocab_size));
  return ids;
}

int64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  int64_t size = 0;
  int64_t resident = 0;
  statm >> size >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

class SynthTest : public ::testing::TestWithParam<Cut> {
 protected:
  void SetUp() override {
    if (!has_free_memory(GetParam().memory_gib)) GTEST_SKIP() << "needs " << GetParam().memory_gib << " GiB of free memory";
    model_ = std::make_unique<TestModel>(*backend_, GetParam().spec, options_);
    prompt_ = random_ids(kContext, model().config().vocab_size, 7);
  }
  [[nodiscard]] TestModel& model() { return *model_; }
  void expect_reference_steps();
  void expect_reference_drafts(ReferenceState& reference, int32_t newest_token_id, ProposerState& drafter);
  void expect_reference_verify(ReferenceState& reference, TargetSequence& sequence, int32_t newest_token_id);
  GenerationResult generate_plainly();
  void expect_lossless(const Rounds& rounds);
  /// Rows of `columns` values; keeps the error found as a property of the test.
  void expect_close(const std::string& what, std::span<const float> got, std::span<const float> expected, int64_t columns);

  const TestModelOptions options_{
      .cache_dtype = GetParam().cache_dtype, .max_seq_len = kContext + 72, .keep_logits = true, .log_probabilities = true};
  std::unique_ptr<GpuBackend> backend_ = open_cpu();
  std::unique_ptr<TestModel> model_;
  std::vector<int32_t> prompt_;
  std::vector<int32_t> plain_token_ids_;
  std::vector<std::vector<float>> plain_logits_;  // that each of them was picked from
};

void SynthTest::expect_close(const std::string& what, std::span<const float> got, std::span<const float> expected,
                             int64_t columns) {
  const double error = relative_error(got, expected, columns);
  EXPECT_LT(error, kTolerance) << what;
  RecordProperty("relative error, " + what, std::to_string(error * 1e9) + "e-9");
}

/// The steps after the prompt in float64, from the state that the CPU's prefill left.
void SynthTest::expect_reference_steps() {
  const auto drafter = model().proposer().alloc_state(kContext + TargetRunner::kMaxVerifyRows);
  TargetSequence sequence = model().runner().create_sequence(kContext + TargetRunner::kMaxVerifyRows);
  const Tensor& hidden = model().runner().model().hidden();
  model().runner().prefill(sequence, prompt_, [&](int64_t first, int64_t num_rows) {
    const int64_t known = std::min(num_rows, kContext - 1 - first);
    const auto next = std::span(prompt_).subspan(static_cast<size_t>(first + 1), static_cast<size_t>(known));
    model().proposer().append_rows(model().stream(), next, hidden.rows(0, known), LinearPrecision::kExact, *drafter);
  });
  const int32_t newest_token_id = model().runner().read_picks(1)[0];
  ReferenceState reference(model(), options_, kContext);
  expect_reference_drafts(reference, newest_token_id, *drafter);
  expect_reference_verify(reference, sequence, newest_token_id);
}

void SynthTest::expect_reference_drafts(ReferenceState& reference, int32_t newest_token_id, ProposerState& drafter) {
  constexpr int64_t kDrafts = 2;
  const Tensor& hidden = model().runner().model().hidden();
  const Tensor block = propose_one(model().stream(), model().proposer(), {&newest_token_id, 1}, hidden, kDrafts, drafter);
  std::vector<int32_t> token_ids(kDrafts);
  model().stream().download(block.rows(1, kDrafts).view(), std::as_writable_bytes(std::span(token_ids)));
  const std::vector<float> logprobs = model().read(model().proposer().log_probabilities().rows(0, kDrafts).columns(0, 1));

  const auto expected = reference.draft(newest_token_id, model().read(hidden.rows(0, 1)), kDrafts);
  EXPECT_EQ(token_ids, expected.token_ids);
  for (size_t i = 0; i < logprobs.size(); ++i) EXPECT_NEAR(logprobs[i], expected.logprobs[i], kTolerance) << "draft " << i;
  expect_close("hidden state of the last draft", model().read(model().proposer().head().hidden().rows(0, 1)), expected.hidden,
               model().config().hidden_size);
}

/// Two steps of four rows: the second one builds on three rows that the first one recorded.
void SynthTest::expect_reference_verify(ReferenceState& reference, TargetSequence& sequence, int32_t newest_token_id) {
  constexpr int64_t kRows = 4;
  constexpr int64_t kKeep = 3;
  const ModelConfig& config = model().config();
  TargetRunner& runner = model().runner();
  const Buffer memory = backend_->allocate(dtype_bytes(DType::kI32, kRows));
  const Tensor block = memory.tensor(DType::kI32, {kRows});
  std::vector<int32_t> fed = random_ids(kRows, config.vocab_size, 8);
  fed[0] = newest_token_id;
  const auto verify = [&] {
    model().stream().upload(std::as_bytes(std::span(fed)), block.view());
    runner.verify(sequence, block);
    StepResult result = std::move(runner.finish().front());
    TargetRunner::keep_rows(sequence, result, kKeep);
    return result;
  };

  const StepResult first = verify();
  const auto hidden = reference.verify(fed, kContext, 0);
  expect_close("hidden states of a verify step", model().read(runner.model().hidden().rows(0, kRows)), hidden,
               config.hidden_size);
  const std::vector<float> logits = reference.logits(kRows);
  expect_close("logits of a verify step", model().read(runner.logits().rows(0, kRows)), logits, config.vocab_size);
  for (size_t row = 0; row < kRows; ++row) {
    const auto line =
        std::span(logits).subspan(row * static_cast<size_t>(config.vocab_size), static_cast<size_t>(config.vocab_size));
    EXPECT_EQ(first.target_token_ids[row], std::ranges::max_element(line) - line.begin()) << "row " << row;
  }

  fed = random_ids(kRows, config.vocab_size, 9);
  static_cast<void>(verify());
  expect_close("hidden states of the verify step after it", model().read(runner.model().hidden().rows(0, kRows)),
               reference.verify(fed, kContext + kKeep, kKeep), config.hidden_size);
}

GenerationResult SynthTest::generate_plainly() {
  plain_logits_.clear();
  GenerationOptions options{.max_tokens = kMaxTokens, .num_speculative_tokens = 0};
  options.on_token = [this](int32_t) { plain_logits_.push_back(model().read(model().runner().logits().rows(0, 1))); };
  return model().generator().generate(prompt_, options);
}

/// The same ids, from bit-equal logits, with the accept counts that were asked for.
void SynthTest::expect_lossless(const Rounds& rounds) {
  const Outcome outcome = outcome_of(rounds);
  std::vector<size_t> different;
  size_t index = 0;
  GenerationOptions options{.max_tokens = kMaxTokens, .depth_pattern = rounds.depths};
  options.forced = {.pattern = rounds.accepts, .continuation = plain_token_ids_};
  options.on_token = [&](int32_t) {
    const std::vector<float> logits = model().read(model().runner().logits().rows(outcome.row_of_token.at(index), 1));
    const std::vector<float>& plain = plain_logits_.at(index);
    if (std::memcmp(logits.data(), plain.data(), plain.size() * sizeof(float)) != 0) different.push_back(index);
    ++index;
  };
  const GenerationResult result = model().generator().generate(prompt_, options);
  EXPECT_EQ(result.output_token_ids, plain_token_ids_);
  EXPECT_EQ(result.speculation.accepted_per_round, outcome.accepted);
  EXPECT_TRUE(different.empty()) << different.size() << " rows of logits differ, first that of token " << different.front();
}

TEST_P(SynthTest, LosslessAndAsTheReferenceWithoutGrowth) {
  ASSERT_EQ(model().config().vocab_size, 248320);
  ASSERT_EQ(model().config().head_dim, 256);
  expect_reference_steps();
  plain_token_ids_ = generate_plainly().output_token_ids;
  ASSERT_EQ(static_cast<int64_t>(plain_token_ids_.size()), kMaxTokens);

  const size_t allocated = backend_->allocated_bytes();
  const int64_t resident = resident_bytes();
  for (const Rounds& rounds : forced_rounds()) {
    SCOPED_TRACE(rounds.name);
    expect_lossless(rounds);
    EXPECT_EQ(backend_->allocated_bytes(), allocated);
  }
  const int64_t growth = resident_bytes() - resident;
  EXPECT_LT(growth, kMaxGrowthBytes);
  RecordProperty("growth of resident memory, bytes", std::to_string(growth));
}

INSTANTIATE_TEST_SUITE_P(Cuts, SynthTest,
                         ::testing::Values(Cut{"Dense08B", "synth:qwen3.5-0.8b:layers=4", DType::kF32, 4},
                                           Cut{"Moe35BA3B", "synth:qwen3.5-35b-a3b:layers=4", DType::kBF16, 12}),
                         [](const auto& instance) { return instance.param.name; });

}  // namespace
}  // namespace foretoken::test
