// What the drafter's context is made of: which of the target's hidden states it takes in, and where they lie until then.
#pragma once

#include "speculative/draft_proposer.h"
#include "speculative/generation_request.h"
#include "speculative/target_runner.h"

namespace foretoken {

/// A pass of the target overwrites the hidden states of the one before. Rows that are needed longer are parked: copied to the
/// sequence's place behind the rows of the passes. A sequence without drafts for a while rests while its depth policy knows that
/// none come soon: its plain steps then cost nothing for a drafter, whose context has a gap later, but ends with recent rows.
/// Works on the stream of the runner; waits for nothing.
class DrafterRows {
 public:
  /// Rows of a sequence's parking place: as many plain steps go by between two passes of append_rows.
  static constexpr int64_t kParkedRows = 32;
  /// Rounds in a row without drafts before a sequence rests: rows of a verify step and of these rounds fill its parking place.
  static constexpr int64_t kRoundsToRest = kParkedRows - TargetRunner::kMaxVerifyRows;
  /// Rows that one that rested drafts with at least, if it was known when: the first draft pass takes them in. Of the bundled
  /// checkpoints fewer of the first drafts hold with fewer.
  static constexpr int64_t kRecentRows = 8;

  /// All must outlive it. The runner needs kParkedRows parked rows for each of its sequences. Throws InvalidArgument otherwise.
  /// Without `takes_prompts` a drafter's context begins with generated text.
  DrafterRows(Stream& stream, const TargetRunner& runner, DraftProposer& proposer, bool takes_prompts = true);

  /// The hidden states that the proposer is fed, rows of passes and parked ones.
  [[nodiscard]] const Tensor& hidden() const;

  [[nodiscard]] bool takes_prompts() const { return takes_prompts_; }
  /// A drafter for the request, with room for `budget_tokens` and no rows: the next that it takes are those of the prompt from
  /// `num_cached_tokens` on, or of the text. Throws OutOfMemory.
  void start(GenerationRequest& request, int64_t budget_tokens, int64_t num_cached_tokens);
  /// All rows of a prompt's chunk but the last, straight from the pass. The last one is pending: it is appended alone, exactly,
  /// before the next chunk, so that its bits are those of a prompt that resumes there.
  void append_chunk(GenerationRequest& request, int64_t first_position, int64_t num_rows);
  /// The last pass left rows at `first_row`, one for each of `next_token_ids`.
  void add(GenerationRequest& request, std::span<const int32_t> next_token_ids, int64_t first_row);
  /// Before a pass that overwrites them, of other sequences.
  void park(GenerationRequest& request);
  /// Before a round without drafts for the request, and `num_rounds_ahead` more: parks its rows, or leaves them out when it
  /// rests.
  void pass_by(GenerationRequest& request, int64_t num_rounds_ahead);
  /// Before a propose that takes them in: at most as many are left as it may take.
  void make_proposable(GenerationRequest& request);
  /// Appends all but the newest.
  void keep_newest(GenerationRequest& request);
  /// One row lies in the request's parking place, at place_of, and is all that is pending; `row` says what else is known of it.
  void set_parked(GenerationRequest& request, PendingRows row);
  /// The first row of the parking place of a sequence's slot, [1, hidden_size].
  [[nodiscard]] Tensor place_of(int32_t state_slot) const { return hidden().rows(first_parked_row(state_slot), 1); }
  /// Appends all of them.
  void flush(GenerationRequest& request) { append_oldest(request, static_cast<int64_t>(request.pending.next_token_ids.size())); }

 private:
  /// Tells the drafter what was left out, and appends the `count` oldest rows.
  void append_oldest(GenerationRequest& request, int64_t count);
  /// Copies the rows of a pass behind those that are parked.
  void copy_to_place(GenerationRequest& request, int64_t first_row, int64_t num_rows);
  [[nodiscard]] int64_t first_parked_row(int32_t state_slot) const;

  Stream& stream_;
  const TargetRunner& runner_;
  DraftProposer& proposer_;
  bool takes_prompts_;
};

}  // namespace foretoken
