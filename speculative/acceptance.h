// How often drafts hold: prefix acceptance along greedy texts, which needs no verify step.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "speculative/draft_proposer.h"
#include "speculative/target_runner.h"

namespace foretoken {

/// Over all starts along greedy texts that have kPositions tokens after them, with exact drafter rows: at how many of them the
/// first j drafts all equal the text.
struct PrefixAcceptance {
  static constexpr int64_t kPositions = 5;

  int64_t starts = 0;
  std::array<int64_t, kPositions> accepted{};  // [j - 1]: starts whose first j drafts hold

  /// Share of the starts whose first `position` (1 .. kPositions) drafts hold; 0 without starts.
  [[nodiscard]] double share(int64_t position) const;
};

/// One of several proposers that are measured along the same texts.
struct MeasuredProposer {
  DraftProposer* proposer = nullptr;
  PrefixAcceptance acceptance{};
};

struct MeasuredText {
  int64_t max_tokens = 0;
  std::span<const int32_t> stop_token_ids{};
  bool draft_prompt_rows = true;  // the drafters' context begins with the prompt; otherwise with the text
};

/// Decodes plainly after `prompt`, at most `max_tokens` and up to a stop token, has every proposer draft at each token, and adds
/// to their figures. Returns the text. Throws InvalidArgument (empty prompt, ids outside the vocabulary, a proposer of fewer than
/// kPositions drafts) and OutOfMemory.
std::vector<int32_t> measure_prefix_acceptance(Stream& stream, TargetRunner& runner, std::span<MeasuredProposer> measured,
                                               std::span<const int32_t> prompt, const MeasuredText& wanted);

}  // namespace foretoken
