// How many drafts each sequence gets in the next round: as asked for, by the number of active sequences, or learned. Pure logic;
// no policy ever changes a text.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "speculative/survival_estimate.h"

namespace foretoken {

/// What `auto` remembers of one request: made with it, written by the policy only.
struct DepthState {
  static constexpr double kMemory = 64.0;  // rounds

  SurvivalEstimate survival{kMemory};
  double saved_us = 0.0;    // against plain decoding so far; what is negative was drawn from the allowance
  bool is_probing = false;  // drafts because a probe's drafts held
  bool is_known = false;    // depths were chosen with it
};

/// A sequence that takes part in the next round.
struct ActiveSequence {
  DepthState* state = nullptr;
  int64_t max_drafts = 0;  // that still fit in its context; 0 for a sequence that must not draft
};

/// Where the time of a round went.
struct RoundTime {
  double draft_us = 0.0;   // the draft Program; 0 in a round without drafts
  double verify_us = 0.0;  // the verify Program, or the plain step
  double host_us = 0.0;    // the rest

  [[nodiscard]] double total_us() const { return draft_us + verify_us + host_us; }
};

/// What became of one sequence's drafts.
struct SequenceOutcome {
  DepthState* state = nullptr;
  int64_t num_drafted = 0;
  int64_t num_accepted = 0;
};

struct RoundReport {
  std::span<const SequenceOutcome> sequences{};  // all of the round, those without drafts too
  std::optional<RoundTime> time{};               // absent for a round that did other work in between (prefill, a first recording)
};

/// Decides before each round and learns after it. The same inputs give the same decisions. Not thread-safe.
class DepthPolicy {
 public:
  DepthPolicy() = default;
  DepthPolicy(const DepthPolicy&) = delete;
  DepthPolicy& operator=(const DepthPolicy&) = delete;
  virtual ~DepthPolicy() = default;

  /// Most drafts that a sequence ever gets.
  [[nodiscard]] virtual int64_t max_drafts() const = 0;

  /// Drafts of each sequence in the next round, 0 .. its max_drafts; 0: a plain step. Throws InvalidArgument for no sequences and
  /// for one without a state.
  [[nodiscard]] virtual std::vector<int64_t> depths(std::span<const ActiveSequence> sequences) = 0;

  /// Rounds after the one whose depths were chosen last that surely have no drafts either, unless other sequences join.
  [[nodiscard]] virtual int64_t num_plain_rounds_ahead() const { return 0; }

  /// What the round gave and took. Throws InvalidArgument for a report without sequences or states, for more accepted than
  /// drafted and for
  /// times that are negative or not finite; nothing is learned then.
  virtual void observe(const RoundReport& report) = 0;

  /// A measured round outside any text, `num_drafts` for each of `num_sequences`; 0 is a plain step. A policy that has no use for
  /// it takes no notice. Throws InvalidArgument for fewer than one sequence, fewer than no drafts, and times like observe.
  virtual void learn_cost(int64_t num_sequences, int64_t num_drafts, const RoundTime& time) = 0;
};

/// `num_drafts` while at most `max_sequences` are active.
struct LadderStep {
  int64_t max_sequences = 0;
  int64_t num_drafts = 0;

  bool operator==(const LadderStep&) const = default;
};

/// Which policy, as an option says it.
struct DepthPolicySpec {
  enum class Kind : uint8_t { kFixed, kLadder, kAuto };
  Kind kind = Kind::kFixed;
  int64_t max_drafts = 3;            // kFixed: that many; otherwise the most of a round
  std::vector<LadderStep> ladder{};  // kLadder: by rising max_sequences; beyond the last step the last one counts

  bool operator==(const DepthPolicySpec&) const = default;
};

/// "N", "auto" (up to `max_drafts`) or a ladder "SEQUENCES:DRAFTS,..." such as 4:3,8:3,16:1,32:1. Throws InvalidArgument that
/// says what is wrong: no number, drafts outside 0 .. `max_drafts`, numbers of sequences that do not rise.
[[nodiscard]] DepthPolicySpec parse_depth_policy(std::string_view text, int64_t max_drafts);
/// What the parser takes.
[[nodiscard]] std::string to_string(const DepthPolicySpec& spec);

[[nodiscard]] std::unique_ptr<DepthPolicy> make_depth_policy(const DepthPolicySpec& spec);

/// Throw what DepthPolicy's functions throw.
void check_sequences(std::span<const ActiveSequence> sequences);
void check_report(const RoundReport& report);
void check_cost(int64_t num_sequences, int64_t num_drafts, const RoundTime& time);

}  // namespace foretoken
