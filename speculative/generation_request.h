// One request inside the generation engine: what is known of it between two rounds.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "cache/host_copy.h"
#include "speculative/depth_policy.h"
#include "speculative/draft_proposer.h"
#include "speculative/generation.h"
#include "speculative/target_sequence.h"
#include "speculative/text_stream.h"

namespace foretoken {

using RequestId = int64_t;

/// Rows that the drafter lacks, oldest first: consecutive rows of the target's hidden states, each with the token that follows.
/// They lie where the last pass left them, until the next one, or in the sequence's parking place (drafter_rows.h).
struct PendingRows {
  std::vector<int32_t> next_token_ids;
  int64_t first_hidden_row = 0;
  bool is_parked = false;
  int64_t num_left_out = 0;      // rows before them that the drafter never gets
  int64_t num_plain_rounds = 0;  // since the last drafts
};

/// What a preempted request had on the device.
struct SavedRequest {
  HostCopy bytes;
  int64_t num_tokens = 0;      // in the target's caches
  int64_t num_draft_rows = 0;  // in the drafter's
  int64_t num_draft_keys = 0;  // see DrafterKv
  PendingRows pending{};       // the newest one, if there is one
};

class GenerationRequest {
 public:
  enum class Phase : uint8_t { kWaiting, kPrefill, kDecode, kFinished };
  using Clock = std::chrono::steady_clock;

  /// `max_context`: most tokens of prompt and text together. Throws InvalidArgument: text options without a tokenizer.
  GenerationRequest(RequestId request_id, std::vector<int32_t> prompt_ids, GenerationOptions generation_options,
                    const Tokenizer* tokenizer, int64_t max_context);

  [[nodiscard]] bool is_finished() const { return phase == Phase::kFinished; }
  [[nodiscard]] bool speculates() const;
  /// Whether its picks need a sampler.
  [[nodiscard]] bool is_sampled() const { return !is_plain_greedy(options.sampling); }
  /// Prompt and text, the newest token included.
  [[nodiscard]] int64_t num_tokens() const { return static_cast<int64_t>(prompt.size() + result.output_token_ids.size()); }
  [[nodiscard]] int32_t newest_token_id() const { return result.output_token_ids.back(); }
  /// Positions that the caches must have room for: prompt, text, and the drafts that may stick out of it.
  [[nodiscard]] int64_t budget_tokens(int64_t max_verify_rows) const;

  /// Drafts that the request wants in its next round, by its own options, as far as its context goes.
  [[nodiscard]] int64_t wanted_depth() const;
  /// Ids of the rows of its next step: the newest token, then -1 (the drafter's) or a forced id for each draft.
  [[nodiscard]] std::vector<int32_t> step_token_ids(int64_t depth, int64_t vocab_size) const;

  /// Emits until the text ends; returns how many were emitted. A callback may finish the request.
  int64_t emit(std::span<const int32_t> token_ids);
  /// Ends the text; the result is complete then.
  void finish(FinishReason reason);

  RequestId id;
  std::vector<int32_t> prompt;
  GenerationOptions options;
  Phase phase = Phase::kWaiting;

  // Memory, from admission to the end.
  std::optional<TargetSequence> sequence;
  std::unique_ptr<ProposerState> drafter;
  std::optional<TargetSequence> shadow;  // of the self-check
  PendingRows pending;
  DepthState depth_state;
  std::optional<SavedRequest> saved;  // while it is preempted

  int64_t num_prefilled = 0;    // tokens of the prompt in the caches
  int64_t num_grid_tokens = 0;  // leading ones that were computed by whole chunks, see PrefixIndex
  int64_t round_idx = 0;
  GenerationResult result;
  Clock::time_point admitted_at;
  Clock::time_point decode_begin;

 private:
  int64_t max_context_;
  std::optional<TextStream> text_;
};

}  // namespace foretoken
