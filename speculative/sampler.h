// Sampling of a batch: the parameters and histories of every sequence slot in device memory, and the operators of a step over
// them. What a slot gets depends on its own logits, parameters and tokens alone.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "cache/metadata_buffer.h"
#include "speculative/sampling_params.h"

namespace foretoken {

struct SamplerOptions {
  int64_t vocab_size = 0;
  int32_t max_sequences = 1;       // slots
  int64_t max_rows = 16;           // of a step that is sampled
  int64_t max_drafts = 0;          // of a sequence and round
  int64_t draft_candidates = 128;  // tokens of a draft distribution, 1 .. kMaxDraftCandidates
  int64_t max_logit_biases = 512;  // of a request
  int64_t max_stop_ids = 16;       // of a request with min_tokens
  int64_t max_mask_rows = 0;       // rows of a step whose tokens a mask may limit
};

/// The rows of one sequence in a step, in the order of the batch.
struct SamplerPart {
  int32_t slot = -1;           // -1: greedy over the logits as they are
  int64_t num_rows = 1;        // the newest token and its drafts
  int64_t first_position = 0;  // of the newest token in the sequence
  int64_t block_row = -1;      // row of its drafts in block_token_ids and in the draft distributions; -1: it has none
};

/// Works on one stream, as the runner whose rows it samples. A round: `stage` (and `stage_drafts` where drafts are sampled), the
/// upload of the round's metadata, the Programs with what was recorded of it, then `commit` of what each sequence emitted. Where
/// `needs_draft_ids`, the host reads the drafts before the verify step and calls `stage_masks`.
class Sampler {
 public:
  /// Declares its fields in `round`, which must outlive it and be allocated before anything is recorded. Reserves all memory.
  /// Throws Unsupported when the backend lacks an operator, before anything is allocated; InvalidArgument; OutOfMemory.
  Sampler(GpuBackend& backend, MetadataBuffer& round, const SamplerOptions& options);

  [[nodiscard]] const SamplerOptions& options() const { return options_; }

  /// Gives a slot to a sequence: `output` is what it has emitted already, when it comes back. Throws InvalidArgument (parameters
  /// out of range, more biases, stop ids or masks than the options have room for, ids outside the vocabulary) and then changes
  /// nothing; InvalidState when the slot is taken.
  void join(Stream& stream, int32_t slot, const SamplingParams& params, std::span<const int32_t> prompt,
            std::span<const int32_t> output = {});
  void leave(int32_t slot);
  /// Adds emitted tokens, in order: the last one is the newest token of the next step.
  void commit(int32_t slot, std::span<const int32_t> token_ids);
  [[nodiscard]] bool is_taken(int32_t slot) const;
  /// Parameters of a taken slot.
  [[nodiscard]] const SamplingParams& params(int32_t slot) const;

  /// Writes the rows of the next step into the round's metadata and counts what was committed; only slots with penalties put work
  /// on `stream` for that. Rows past the last part's are padding. Masks of rows without drafts before them are asked for here.
  /// Throws InvalidArgument: more rows than max_rows, or than max_mask_rows with masks; a mask that allows nothing.
  void stage(Stream& stream, std::span<const SamplerPart> parts);
  /// Whether a part's drafts must be known to the host: a slot with a mask and drafts.
  [[nodiscard]] bool needs_draft_ids(std::span<const SamplerPart> parts) const;
  /// Masks of the rows after drafts; `drafts[i]` are those of part i. Called after `stage` with the same parts, before the
  /// upload.
  void stage_masks(Stream& stream, std::span<const SamplerPart> parts, std::span<const std::vector<int32_t>> drafts);
  /// Writes what the draft passes of the next round need; part i is row i of the draft batch.
  void stage_drafts(std::span<const SamplerPart> parts);

  /// Records the picks of a step: `logits` [T, V] are processed in place, `token_ids` [T] are those that the step fed, `picks`
  /// [T] gets the tokens.
  void record_picks(CommandList& cmd, const Tensor& logits, const Tensor& token_ids, const Tensor& picks) const;
  /// Records the verification after record_picks, for B = num_accepted.dim(0) parts: instead of AcceptDrafts, with the same
  /// results.
  void record_accept(CommandList& cmd, const Tensor& logits, const Tensor& token_ids, const Tensor& query_start_loc,
                     const Tensor& picks, const Tensor& num_accepted) const;
  /// Records draft `draft_idx` of the first B parts: `logits` [B, V] of the drafter are processed in place, `block_token_ids`
  /// [max_sequences, 1 + max_drafts] has the drafts before, `token_ids` [B] gets the drafts.
  void record_drafts(CommandList& cmd, int64_t draft_idx, const Tensor& logits, const Tensor& block_token_ids,
                     const Tensor& token_ids) const;

 private:
  /// One sequence.
  struct Slot {
    SamplingParams params;
    bool counts = false;               // has penalties
    std::vector<int32_t> output{};     // kept for masks only
    std::vector<int32_t> uncounted{};  // committed, not yet in the counts on the device
  };

  void require_operators() const;
  void declare_metadata(MetadataBuffer& round);
  void allocate_tables();
  [[nodiscard]] Slot& taken(int32_t slot);
  [[nodiscard]] const Slot& taken(int32_t slot) const;
  void check_room(const SamplingParams& params) const;
  void upload_slot(Stream& stream, int32_t slot, int64_t num_prompt);
  void upload_counts(Stream& stream, int32_t slot, std::span<const int32_t> prompt, std::span<const int32_t> output);
  void count_committed(Stream& stream);
  /// Asks for the mask of a row and uploads it; false where anything may follow.
  bool stage_mask(Stream& stream, const Slot& slot, std::span<const int32_t> output, int64_t row);

  GpuBackend& backend_;
  MetadataBuffer& round_;
  SamplerOptions options_;
  std::vector<std::optional<Slot>> slots_;

  MetadataBuffer::Field row_slots_;        // [max_rows]
  MetadataBuffer::Field positions_;        // [max_rows]
  MetadataBuffer::Field history_;          // [max_rows, 2]
  MetadataBuffer::Field mask_rows_;        // [max_rows]
  MetadataBuffer::Field block_rows_;       // [max_sequences]
  MetadataBuffer::Field draft_slots_;      // [max_sequences]
  MetadataBuffer::Field draft_positions_;  // [max_drafts, max_sequences]
  MetadataBuffer::Field draft_history_;    // [max_drafts, max_sequences, 2]

  MetadataBuffer committed_;                // uploaded when something is to be counted
  MetadataBuffer::Field committed_slots_;   // [kMaxCommitted]
  MetadataBuffer::Field committed_tokens_;  // [kMaxCommitted]

  Buffer memory_;
  Tensor reals_;               // [S, 6] F32
  Tensor integers_;            // [S, 3] I32
  Tensor seeds_;               // [S] I64
  Tensor bias_ids_;            // [S, M] I32
  Tensor bias_values_;         // [S, M] F32
  Tensor stop_ids_;            // [S, E] I32
  Tensor counts_;              // [S, V] I32
  Tensor masks_;               // [R, (V+31)/32] I32; absent without max_mask_rows
  Tensor weight_sums_;         // [max_rows] I64
  Tensor draft_ids_;           // [max_drafts, S, C] I32
  Tensor draft_weights_;       // [max_drafts, S, C] I64
  int64_t num_mask_rows_ = 0;  // of the step being staged
};

}  // namespace foretoken
