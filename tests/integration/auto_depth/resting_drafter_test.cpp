// A sequence without drafts for a while: its drafter takes nothing in, and comes back with a gap in its context. No text shows
// it.
#include <gtest/gtest.h>

#include <functional>
#include <numeric>

#include "test_model.h"
#include "tests/support/golden.h"

namespace foretoken::test {
namespace {

constexpr int64_t kToRest = DrafterRows::kRoundsToRest;
constexpr int64_t kRecent = DrafterRows::kRecentRows;
constexpr int64_t kDrafts = 3;
constexpr int64_t kLong = 100;  // rounds

/// Depths by the number of the round. It knows them all, or is `surprised` by every draft, as by other sequences that join.
class ScriptedDepths final : public DepthPolicy {
 public:
  explicit ScriptedDepths(std::function<int64_t(int64_t round)> script, bool surprised = false)
      : script_(std::move(script)), surprised_(surprised) {}
  [[nodiscard]] int64_t max_drafts() const override { return kDrafts; }
  [[nodiscard]] std::vector<int64_t> depths(std::span<const ActiveSequence> sequences) override {
    std::vector<int64_t> depths;
    for (const ActiveSequence& sequence : sequences) depths.push_back(std::min(script_(round_), sequence.max_drafts));
    ++round_;
    return depths;
  }
  [[nodiscard]] int64_t num_plain_rounds_ahead() const override {
    int64_t ahead = 0;
    while (ahead < kLong && (surprised_ || script_(round_ + ahead) == 0)) ++ahead;
    return ahead;
  }
  void observe(const RoundReport& /*report*/) override {}
  void learn_cost(int64_t /*num_sequences*/, int64_t /*num_drafts*/, const RoundTime& /*time*/) override {}

 private:
  std::function<int64_t(int64_t)> script_;
  bool surprised_;
  int64_t round_ = 0;
};

/// Drafts, then `pause` plain steps, over and over.
GenerationEngineOptions pauses(int64_t drafting, int64_t pause) {
  const auto script = [=](int64_t round) { return round % (drafting + pause) < drafting ? kDrafts : 0; };
  return {.depth_policy = std::make_unique<ScriptedDepths>(script)};
}

/// Another proposer, and what it is asked to take in.
class WatchedProposer final : public DraftProposer {
 public:
  explicit WatchedProposer(DraftProposer& watched) : watched_(watched) {}

  int64_t appended = 0;               // rows by append_rows
  std::vector<int64_t> proposed{};    // rows of each part
  std::vector<int64_t> skipped_to{};  // keys
  [[nodiscard]] int64_t rows() const { return std::accumulate(proposed.begin(), proposed.end(), appended); }

  [[nodiscard]] std::string_view name() const override { return watched_.name(); }
  [[nodiscard]] HiddenKind hidden_kind() const override { return watched_.hidden_kind(); }
  [[nodiscard]] int64_t max_drafts() const override { return watched_.max_drafts(); }
  [[nodiscard]] int64_t max_parts() const override { return watched_.max_parts(); }
  [[nodiscard]] int64_t max_part_rows() const override { return watched_.max_part_rows(); }
  [[nodiscard]] int64_t max_append_rows() const override { return watched_.max_append_rows(); }
  [[nodiscard]] std::unique_ptr<ProposerState> alloc_state(int64_t budget) override { return watched_.alloc_state(budget); }
  void append_rows(Stream& stream, std::span<const int32_t> next_token_ids, const Tensor& hidden, LinearPrecision precision,
                   ProposerState& state) override {
    appended += static_cast<int64_t>(next_token_ids.size());
    watched_.append_rows(stream, next_token_ids, hidden, precision, state);
  }
  [[nodiscard]] Tensor propose(Stream& stream, std::span<const DraftPart> parts, const Tensor& hidden) override {
    for (const DraftPart& part : parts) proposed.push_back(static_cast<int64_t>(part.next_token_ids.size()));
    return watched_.propose(stream, parts, hidden);
  }
  [[nodiscard]] const Tensor& block_token_ids() const override { return watched_.block_token_ids(); }
  [[nodiscard]] bool may_stop_early() const override { return watched_.may_stop_early(); }
  [[nodiscard]] Tensor log_probabilities() const override { return watched_.log_probabilities(); }
  int64_t after_verify(int64_t accepted, ProposerState& state) override { return watched_.after_verify(accepted, state); }
  [[nodiscard]] int64_t num_rows(const ProposerState& state) const override { return watched_.num_rows(state); }
  [[nodiscard]] int64_t num_drafted(const ProposerState& state) const override { return watched_.num_drafted(state); }
  [[nodiscard]] std::optional<int64_t> last_pair_key(const ProposerState& state) const override {
    return watched_.last_pair_key(state);
  }
  [[nodiscard]] int64_t first_missing_key(const ProposerState& state) const override { return watched_.first_missing_key(state); }
  void skip_to(int64_t first_key, ProposerState& state) override {
    skipped_to.push_back(first_key);
    watched_.skip_to(first_key, state);
  }
  [[nodiscard]] PagedKvCache& kv_cache() override { return watched_.kv_cache(); }
  [[nodiscard]] const PagedKvCache& kv_cache() const override { return std::as_const(watched_).kv_cache(); }
  [[nodiscard]] std::span<const int32_t> kv_blocks(const ProposerState& state) const override {
    return watched_.kv_blocks(state);
  }
  [[nodiscard]] DrafterKv take_kv(ProposerState& state) override { return watched_.take_kv(state); }
  void install_kv(DrafterKv& kv, int64_t num_keys, ProposerState& state) override { watched_.install_kv(kv, num_keys, state); }

 private:
  DraftProposer& watched_;
};

class RestingDrafterTest : public testing::TestWithParam<std::string> {
 protected:
  /// The text of plain decoding.
  [[nodiscard]] std::vector<int32_t> plain(const std::vector<int32_t>& prompt) {
    return model_.generator().generate(prompt, {.max_tokens = kTokens, .num_speculative_tokens = 0}).output_token_ids;
  }

  [[nodiscard]] GenerationEngine engine(GenerationEngineOptions options) {
    return GenerationEngine(
        {.backend = &model_.backend(), .stream = &model_.stream(), .runner = &model_.runner(), .proposer = &watched_},
        std::move(options));
  }
  [[nodiscard]] GenerationOptions request() const { return {.max_tokens = kTokens, .num_speculative_tokens = kDrafts}; }
  [[nodiscard]] std::vector<int32_t> prompt(int i) const { return golden_.i32("prompt_" + std::to_string(i)); }
  [[nodiscard]] int64_t prompt_tokens() const { return static_cast<int64_t>(prompt_.size()); }

  static constexpr int64_t kTokens = 150;
  std::unique_ptr<GpuBackend> device_ = open_test_device();
  TestModel model_{*device_, GetParam(), {.max_drafts = kRecent - 1, .max_sequences = 2}};
  Golden golden_{GetParam() + ".golden.safetensors"};
  WatchedProposer watched_{model_.proposer()};
  std::vector<int32_t> prompt_ = prompt(30);
  std::vector<int32_t> plain_ = plain(prompt_);
};

TEST_P(RestingDrafterTest, TakesNothingInWithoutDrafts) {
  GenerationEngine resting = engine(pauses(0, 1));
  EXPECT_EQ(resting.generate(prompt_, request()).output_token_ids, plain_);
  EXPECT_EQ(watched_.rows(), prompt_tokens() - 1) << "those of the prompt";
}

TEST_P(RestingDrafterTest, ComesBackWithAGap) {
  const int64_t pause = kToRest + 20;
  const auto script = [=](int64_t round) { return round < pause ? 0 : kDrafts; };
  GenerationEngine resting = engine({.depth_policy = std::make_unique<ScriptedDepths>(script)});
  const GenerationResult result = resting.generate(prompt_, request());
  EXPECT_EQ(result.output_token_ids, plain_);
  ASSERT_FALSE(watched_.proposed.empty());
  EXPECT_EQ(watched_.appended, prompt_tokens() - 1);
  EXPECT_EQ(watched_.proposed.front(), kRecent) << "in the first draft pass, like those of a round before";
  EXPECT_EQ(watched_.skipped_to, std::vector<int64_t>{prompt_tokens() + pause - kRecent});
  EXPECT_GT(result.speculation.accepted(), 0);
}

/// The drafts of one that was never asked to rest.
TEST_P(RestingDrafterTest, HasNoGapAfterAShortPause) {
  const auto accepted = [&](int64_t pause, bool of_request) {
    GenerationEngine paused = engine(of_request ? GenerationEngineOptions{} : pauses(2, pause));
    GenerationOptions options = request();
    if (of_request) {
      options.depth_pattern.assign(2, kDrafts);
      options.depth_pattern.insert(options.depth_pattern.end(), static_cast<size_t>(pause), 0);
    }
    const GenerationResult result = paused.generate(prompt_, options);
    EXPECT_EQ(result.output_token_ids, plain_) << "pause " << pause;
    return result.speculation.accepted_per_round;
  };
  for (const int64_t pause : {int64_t{2}, kToRest, kToRest + kRecent}) {
    watched_.skipped_to.clear();
    const std::vector<int64_t> eager = accepted(pause, true);
    EXPECT_TRUE(watched_.skipped_to.empty()) << "a request that chooses its depths itself";
    const std::vector<int64_t> got = accepted(pause, false);
    EXPECT_EQ(watched_.skipped_to.empty(), pause < kToRest + kRecent) << "pause " << pause;
    if (pause < kToRest + kRecent) {
      EXPECT_EQ(got, eager) << "pause " << pause;
    }
  }
}

TEST_P(RestingDrafterTest, DraftsHoldNearlyAsOftenAfterGaps) {
  const auto acceptance = [&](bool rests) {
    int64_t held = 0;
    int64_t drafted = 0;
    for (const int i : {0, 1, 24, 25, 30, 31}) {
      GenerationEngine paused = engine(rests ? pauses(4, kToRest + 24) : GenerationEngineOptions{});
      GenerationOptions options = request();
      if (!rests) {
        options.depth_pattern.assign(4, kDrafts);
        options.depth_pattern.insert(options.depth_pattern.end(), static_cast<size_t>(kToRest + 24), 0);
      }
      const GenerationResult result = paused.generate(prompt(i), options);
      held += result.speculation.accepted();
      drafted += result.speculation.drafted;
    }
    return static_cast<double>(held) / static_cast<double>(drafted);
  };
  const double eager = acceptance(false);
  const double resting = acceptance(true);
  RecordProperty("acceptance", std::to_string(eager) + ", with gaps " + std::to_string(resting));
  EXPECT_FALSE(watched_.skipped_to.empty());
  EXPECT_GT(resting, eager - 0.1);
}

TEST_P(RestingDrafterTest, IsPreemptedWhileItRests) {
  GenerationEngine resting = engine(pauses(2, kToRest + 26));
  const int32_t blocks = model_.runner().kv_cache().pool().num_free();
  const int32_t draft_blocks = model_.proposer().kv_cache().pool().num_free();
  const RequestId id = resting.submit(prompt_, request());
  for (int64_t round = 0; !resting.is_finished(id); ++round) {
    resting.step();
    if (round % 11 == 10 && resting.is_decoding(id)) resting.preempt(id);
  }
  const GenerationResult result = resting.take_result(id);
  EXPECT_EQ(result.output_token_ids, plain_);
  EXPECT_GT(result.num_preemptions, 2);
  EXPECT_GT(result.speculation.accepted(), 0);
  EXPECT_FALSE(watched_.skipped_to.empty());
  EXPECT_EQ(model_.runner().kv_cache().pool().num_free(), blocks);
  EXPECT_EQ(model_.proposer().kv_cache().pool().num_free(), draft_blocks);
}

/// The chunk overwrites the newest row, which the drafts of the same round need.
TEST_P(RestingDrafterTest, DraftsInARoundThatReadsAnotherPrompt) {
  const int64_t pause = kToRest + 3;
  const auto script = [=](int64_t round) { return round < pause ? 0 : kDrafts; };
  GenerationEngine resting = engine({.depth_policy = std::make_unique<ScriptedDepths>(script, true)});
  const RequestId id = resting.submit(prompt_, request());
  for (int64_t round = 0; round < pause; ++round) resting.step();
  const std::vector<int32_t> other = plain(prompt(25));
  const RequestId other_id = resting.submit(prompt(25), request());
  while (resting.step()) {
  }
  EXPECT_EQ(resting.take_result(id).output_token_ids, plain_);
  EXPECT_EQ(resting.take_result(other_id).output_token_ids, other);
  ASSERT_FALSE(watched_.proposed.empty());
  EXPECT_EQ(watched_.proposed.front(), 1) << "the newest token's";
}

TEST_P(RestingDrafterTest, ATurnWithAGapLeavesNoDrafterRows) {
  for (const bool rests : {false, true}) {
    GenerationEngineOptions options = pauses(2, rests ? kToRest + 26 : 2);
    options.prefix_cache = PrefixCacheOptions{.snapshot_bytes = size_t{64} << 20, .row_invariant_prefill = true};
    GenerationEngine turns = engine(std::move(options));
    std::vector<int32_t> turn = prompt_;
    const std::vector<int32_t> text = turns.generate(turn, request()).output_token_ids;
    EXPECT_EQ(text, plain_);
    turn.insert(turn.end(), text.begin(), text.end());
    const std::vector<int32_t> question = prompt(25);
    turn.insert(turn.end(), question.begin(), question.end());
    const GenerationResult next = turns.generate(turn, request());
    EXPECT_EQ(next.output_token_ids, plain(turn));
    EXPECT_EQ(next.num_cached_tokens >= prompt_tokens(), !rests);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, RestingDrafterTest, testing::Values("tiny-dense", "tiny-moe"),
                         [](const auto& model) { return model.param == "tiny-dense" ? "Dense" : "Moe"; });

}  // namespace
}  // namespace foretoken::test
