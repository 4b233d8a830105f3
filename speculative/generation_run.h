// One request in the middle of being generated: what the loop knows between two rounds.
#pragma once

#include <chrono>
#include <memory>
#include <optional>

#include "speculative/generator.h"

namespace foretoken {

/// Drafter rows that are not written yet lie in two places: the backlog (rounds without drafts) and, after it, the first
/// `num_fresh_` rows of the target's hidden states (the last step). propose takes the fresh ones in; the backlog goes through
/// append_rows.
class GenerationRun {
 public:
  GenerationRun(Generator& generator, std::span<const int32_t> prompt, const GenerationOptions& options);

  void prefill();
  [[nodiscard]] bool is_finished() const { return finished_; }
  /// One round: drafts and verify, or a plain step where no draft is wanted or fits.
  void round();
  [[nodiscard]] GenerationResult take_result();

  /// Rows of the backlog; as many plain steps go by between two flushes.
  static constexpr int64_t kBacklogRows = 64;

 private:
  using Clock = std::chrono::steady_clock;

  void append_prompt_rows(int64_t first_position, int64_t num_rows);
  [[nodiscard]] int64_t depth();
  void speculative_round(int64_t depth);
  void plain_round();
  void park_fresh_rows();
  void flush_backlog();
  /// The target's hidden states that the proposer is fed.
  [[nodiscard]] const Tensor& hidden() const;
  [[nodiscard]] Tensor hidden_rows(int64_t first_row, int64_t num_rows) const;
  [[nodiscard]] int64_t first_hidden_row(int64_t first_row, int64_t num_rows) const;
  /// Ids that the host gives to a verify step: the newest token, and -1 or a forced id for each draft.
  [[nodiscard]] std::vector<int32_t> step_token_ids(int64_t depth) const;
  /// Emits until the text ends; returns how many were emitted.
  int64_t emit(std::span<const int32_t> token_ids);
  void self_check(TargetSequence& shadow, std::span<const int32_t> fed_token_ids, int64_t num_rows);

  Generator& g_;
  std::span<const int32_t> prompt_;
  const GenerationOptions& options_;
  TargetSequence sequence_;
  std::unique_ptr<ProposerState> drafter_;
  std::optional<TargetSequence> shadow_;
  std::unique_ptr<Event> begin_event_;
  std::unique_ptr<Event> draft_event_;
  std::unique_ptr<Event> verify_event_;
  Clock::time_point decode_begin_;
  int64_t num_tokens_;  // prompt and text, the newest token included
  int32_t newest_token_id_ = 0;
  std::vector<int32_t> backlog_token_ids_;
  std::vector<int32_t> fresh_token_ids_;
  int64_t round_idx_ = 0;
  bool finished_ = false;
  GenerationResult result_;
};

}  // namespace foretoken
