#include "speculative/depth_policy.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/error.h"
#include "speculative/auto_depth.h"

namespace foretoken {
namespace {

constexpr std::string_view kWhere = "depth policy";

[[noreturn]] void fail(std::string_view what, const std::string& expected, std::string_view got) {
  throw Error(
      ErrorCode::kInvalidArgument,
      {.what = std::string(what), .where = std::string(kWhere), .expected = expected, .got = "'" + std::string(got) + "'"});
}

std::optional<int64_t> to_integer(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

void check_state(const DepthState* state) {
  if (state == nullptr) fail("a sequence of a round", "its depth state", "none");
}

void check_round_time(const RoundTime& time) {
  for (const double us : {time.draft_us, time.verify_us, time.host_us}) {
    if (!std::isfinite(us) || us < 0.0) fail("the time of a round", "microseconds, finite and not negative", std::to_string(us));
  }
}

std::string drafts_range(int64_t max_drafts) { return "0 .. " + std::to_string(max_drafts); }

LadderStep parse_step(std::string_view text, int64_t max_drafts) {
  const size_t colon = text.find(':');
  const auto sequences = to_integer(text.substr(0, colon));
  const auto drafts = to_integer(colon == std::string_view::npos ? std::string_view() : text.substr(colon + 1));
  if (!sequences || !drafts) fail("a step of the ladder is not readable", "SEQUENCES:DRAFTS, like 8:3", text);
  if (*sequences < 1) fail("sequences of a step of the ladder", "at least 1", text);
  if (*drafts < 0 || *drafts > max_drafts) fail("drafts of a step of the ladder", drafts_range(max_drafts), text);
  return {.max_sequences = *sequences, .num_drafts = *drafts};
}

std::vector<LadderStep> parse_ladder(std::string_view text, int64_t max_drafts) {
  std::vector<LadderStep> ladder;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view step = text.substr(begin, end - begin);
    ladder.push_back(parse_step(step, max_drafts));
    if (ladder.size() > 1 && ladder.back().max_sequences <= ladder[ladder.size() - 2].max_sequences) {
      fail("sequences of a ladder do not rise", "more than " + std::to_string(ladder[ladder.size() - 2].max_sequences), step);
    }
    begin = end + 1;
  }
  return ladder;
}

int64_t most_drafts(const std::vector<LadderStep>& ladder) {
  return std::ranges::max_element(ladder, {}, &LadderStep::num_drafts)->num_drafts;
}

/// The same number for all sequences. A fixed number is a ladder of one step.
class LadderDepth final : public DepthPolicy {
 public:
  explicit LadderDepth(std::vector<LadderStep> ladder) : ladder_(std::move(ladder)) {}

  [[nodiscard]] int64_t max_drafts() const override { return most_drafts(ladder_); }

  [[nodiscard]] std::vector<int64_t> depths(std::span<const ActiveSequence> sequences) override {
    check_sequences(sequences);
    const auto num_sequences = static_cast<int64_t>(sequences.size());
    const auto fits = [num_sequences](const LadderStep& step) { return num_sequences <= step.max_sequences; };
    const auto found = std::ranges::find_if(ladder_, fits);
    const LadderStep& step = found == ladder_.end() ? ladder_.back() : *found;
    std::vector<int64_t> result;
    for (const ActiveSequence& sequence : sequences) result.push_back(std::min(step.num_drafts, sequence.max_drafts));
    return result;
  }

  void observe(const RoundReport& report) override { check_report(report); }
  void learn_cost(int64_t num_sequences, int64_t num_drafts, const RoundTime& time) override {
    check_cost(num_sequences, num_drafts, time);
  }

 private:
  std::vector<LadderStep> ladder_;
};

}  // namespace

DepthPolicySpec parse_depth_policy(std::string_view text, int64_t max_drafts) {
  using Kind = DepthPolicySpec::Kind;
  if (text == "auto") return {.kind = Kind::kAuto, .max_drafts = max_drafts};
  if (text.find(':') != std::string_view::npos) {
    std::vector<LadderStep> ladder = parse_ladder(text, max_drafts);
    const int64_t most = most_drafts(ladder);
    return {.kind = Kind::kLadder, .max_drafts = most, .ladder = std::move(ladder)};
  }
  const auto drafts = to_integer(text);
  if (!drafts) fail("drafts of a round", "a number, auto, or a ladder like 4:3,8:2,32:1", text);
  if (*drafts < 0 || *drafts > max_drafts) fail("drafts of a round", drafts_range(max_drafts), text);
  return {.kind = Kind::kFixed, .max_drafts = *drafts};
}

std::string to_string(const DepthPolicySpec& spec) {
  if (spec.kind == DepthPolicySpec::Kind::kAuto) return "auto";
  if (spec.kind == DepthPolicySpec::Kind::kFixed) return std::to_string(spec.max_drafts);
  std::string text;
  for (const LadderStep& step : spec.ladder) {
    text += (text.empty() ? "" : ",") + std::to_string(step.max_sequences) + ":" + std::to_string(step.num_drafts);
  }
  return text;
}

std::unique_ptr<DepthPolicy> make_depth_policy(const DepthPolicySpec& spec) {
  switch (spec.kind) {
    case DepthPolicySpec::Kind::kFixed:
      return std::make_unique<LadderDepth>(std::vector<LadderStep>{{.max_sequences = 1, .num_drafts = spec.max_drafts}});
    case DepthPolicySpec::Kind::kLadder: return std::make_unique<LadderDepth>(spec.ladder);
    case DepthPolicySpec::Kind::kAuto: break;
  }
  return std::make_unique<AutoDepth>(spec.max_drafts);
}

void check_sequences(std::span<const ActiveSequence> sequences) {
  if (sequences.empty()) fail("a round", "at least one sequence", "0");
  for (const ActiveSequence& sequence : sequences) check_state(sequence.state);
}

void check_cost(int64_t num_sequences, int64_t num_drafts, const RoundTime& time) {
  if (num_sequences < 1) fail("sequences of a measured round", "at least 1", std::to_string(num_sequences));
  if (num_drafts < 0) fail("drafts of a measured round", "at least 0", std::to_string(num_drafts));
  check_round_time(time);
}

void check_report(const RoundReport& report) {
  if (report.sequences.empty()) fail("the report of a round", "at least one sequence", "0");
  for (const SequenceOutcome& outcome : report.sequences) {
    check_state(outcome.state);
    if (outcome.num_accepted < 0 || outcome.num_accepted > outcome.num_drafted) {
      fail("accepted drafts", drafts_range(outcome.num_drafted), std::to_string(outcome.num_accepted));
    }
  }
  if (report.time) check_round_time(*report.time);
}

}  // namespace foretoken
