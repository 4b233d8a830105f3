// The generation engine: continuous batching of requests over one target and one drafter. A round takes one step of every request
// that decodes: one draft Program and one verify Program for all of them, one upload, one read-back. Every text is that of the
// request alone.
#pragma once

#include <cstdint>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "speculative/depth_policy.h"
#include "speculative/drafter_rows.h"
#include "speculative/generation_parts.h"
#include "speculative/generation_request.h"
#include "speculative/request_memory.h"

namespace foretoken {

struct GenerationEngineOptions {
  std::unique_ptr<DepthPolicy> depth_policy{};       // null: every request's own depth
  std::optional<PrefixCacheOptions> prefix_cache{};  // nothing: no prefix is kept
  bool draft_prompt_rows = true;                     // the drafter's context begins with the prompt; otherwise with the text
  bool overcommit = false;  // requests join when their prompt fits, and are preempted when caches run short
};

struct GenerationStatistics {
  int64_t num_rounds = 0;
  int64_t num_prefill_chunks = 0;
  int64_t num_preemptions = 0;
  int64_t max_active = 0;  // requests alive at once
  double draft_us = 0.0;   // device time of draft Programs
  double verify_us = 0.0;  // of verify and plain steps
};

/// Not thread-safe.
class GenerationEngine {
 public:
  /// Throws InvalidArgument for parts that do not fit together: a self-check without logits, too few parked rows; OutOfMemory for
  /// a prefix cache that does not fit.
  explicit GenerationEngine(const GenerationParts& parts, GenerationEngineOptions options = {});
  ~GenerationEngine();
  GenerationEngine(const GenerationEngine&) = delete;
  GenerationEngine& operator=(const GenerationEngine&) = delete;

  /// Most tokens of prompt and text together.
  [[nodiscard]] int64_t max_context() const;
  /// Null: every request's own depth. Throws InvalidState while requests wait or are alive.
  void set_depth_policy(std::unique_ptr<DepthPolicy> policy);
  /// Forgets cached prefixes.
  void clear_prefixes();

  /// Queues a request; it joins between two rounds, in order of arrival, as soon as there is memory for its whole budget. Throws
  /// InvalidArgument: empty prompt, prompt of max_context or more tokens, ids out of range, depth out of range, speculation
  /// without a proposer, sampling parameters out of range; OutOfMemory for one that never fits.
  RequestId submit(std::vector<int32_t> prompt, GenerationOptions options);
  /// Ends a request where it is; its result says so. Also from within callbacks. Throws InvalidArgument for an unknown id.
  void cancel(RequestId id);
  /// Moves what a decoding request has on the device to host memory; it goes on, with the same text, before those that wait. Not
  /// from within callbacks. Throws InvalidArgument for an unknown id, InvalidState unless it decodes.
  void preempt(RequestId id);

  /// Admits, reads one chunk of one prompt, and takes one step of every request that decodes. False when nothing is left to do.
  /// An exception of a callback cancels its request, and is thrown again when the round is over.
  bool step();

  [[nodiscard]] bool is_finished(RequestId id) const;
  /// Whether a request has its first token and is neither finished nor preempted.
  [[nodiscard]] bool is_decoding(RequestId id) const;
  /// The result of a finished request, which is then forgotten. Throws InvalidArgument for an unknown id, InvalidState for one
  /// that is not finished.
  [[nodiscard]] GenerationResult take_result(RequestId id);

  /// One request from submit to result. All memory of the sequence is returned, also on a throw.
  [[nodiscard]] GenerationResult generate(std::span<const int32_t> prompt, const GenerationOptions& options);

  [[nodiscard]] int64_t num_waiting() const { return static_cast<int64_t>(waiting_.size()); }
  /// Requests with memory: in prefill or decoding.
  [[nodiscard]] int64_t num_active() const { return static_cast<int64_t>(active_.size()); }
  [[nodiscard]] const GenerationStatistics& statistics() const { return statistics_; }
  /// Null without one.
  [[nodiscard]] const PrefixCache* prefix_cache() const { return prefixes_ ? &*prefixes_ : nullptr; }

 private:
  /// A request in a round.
  struct Member {
    GenerationRequest* request;
    int64_t depth;
    std::vector<int32_t> token_ids;  // of its rows
    int64_t first_row;               // in the step
    int64_t block_row;               // of the drafter's token ids, -1 without drafts
  };
  using Round = std::vector<Member>;

  void check_request(std::span<const int32_t> prompt, const GenerationOptions& options) const;
  [[nodiscard]] GenerationRequest& request(RequestId id) const;

  // Joining and leaving.
  void admit();
  void preempt(GenerationRequest& request);
  void drop_finished();

  // Prompts.
  bool prefill_one_chunk();
  void finish_prefill(GenerationRequest& request, int64_t num_rows);

  // A round of those that decode.
  /// Blocks for the rows of each member; the youngest make way where there are too few.
  void reserve(Round& round);
  [[nodiscard]] Round make_round();
  void number_rows(Round& round) const;
  /// Whether the depth policy chooses the request's depths, not the request itself.
  [[nodiscard]] bool is_policys(const GenerationRequest& request) const {
    return options_.depth_policy && request.options.depth_pattern.empty();
  }
  void choose_depths(Round& round);
  void stage(const Round& round);
  void stage_drafted(Round& round);
  void draft(const Round& round);
  void stage_masks(const Round& round);
  /// What the step gave: states, rows for the drafter, text.
  std::vector<SequenceOutcome> apply(const Round& round, std::span<const StepResult> results);
  /// `did_other_work`: the time of this round is not that of its Programs alone.
  void decode_round(bool did_other_work);
  /// Returns how many were emitted.
  int64_t emit(GenerationRequest& request, std::span<const int32_t> token_ids);

  GenerationParts parts_;
  GenerationEngineOptions options_;
  std::optional<DrafterRows> rows_;
  std::optional<PrefixCache> prefixes_;
  std::optional<RequestMemory> memory_;
  std::unique_ptr<Event> begin_event_;
  std::unique_ptr<Event> draft_event_;
  std::unique_ptr<Event> verify_event_;
  std::map<RequestId, std::unique_ptr<GenerationRequest>> requests_;
  std::deque<GenerationRequest*> waiting_;
  std::vector<GenerationRequest*> active_;  // in order of admission
  RequestId next_id_ = 1;
  GenerationStatistics statistics_;
  std::exception_ptr callback_error_;
};

}  // namespace foretoken
