// Sampling of a batch: the parameters and histories of every sequence slot in device memory, and the operators of a step over
// them. What a slot gets depends on its own logits, parameters and tokens alone.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "cache/metadata_buffer.h"
#include "core/ops/process_logits.h"
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

/// The rows of one sequence in a step; the parts of a step are in the order of its rows.
struct SamplerPart {
  int32_t slot = -1;           // -1: greedy over the logits as they are
  int64_t num_rows = 1;        // the newest token and its drafts
  int64_t first_position = 0;  // of the newest token in the sequence
  int64_t block_row = -1;      // row of the draft batch in which record_drafts drew its drafts; -1: nobody drew them
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
  /// Throws InvalidState when the slot is free, like what follows.
  void leave(int32_t slot);
  /// Adds emitted tokens, in order: the last one is the newest token of the next step.
  void commit(int32_t slot, std::span<const int32_t> token_ids);
  [[nodiscard]] bool is_taken(int32_t slot) const;
  /// Parameters of a taken slot.
  [[nodiscard]] const SamplingParams& params(int32_t slot) const;

  /// Writes the rows of the next step into the round's metadata and counts what was committed; only slots with penalties put work
  /// on `stream` for that. Rows past the last part's are padding. Masks of parts without drafts are asked for here. Throws
  /// InvalidArgument: more rows than max_rows, or than max_mask_rows with masks; a mask that allows nothing, not even stop ids.
  void stage(Stream& stream, std::span<const SamplerPart> parts);
  /// Whether a part's drafts must be known to the host: a slot with a mask and drafts.
  [[nodiscard]] bool needs_draft_ids(std::span<const SamplerPart> parts) const;
  /// Masks of the parts with drafts; `drafts[i]` are those of part i. Called after `stage` with the same parts, before the
  /// upload. Throws as `stage`.
  void stage_masks(Stream& stream, std::span<const SamplerPart> parts, std::span<const std::vector<int32_t>> drafts);
  /// Whether a slot's drafts are to be drawn from the drafter's distribution: record_drafts; false for slot -1.
  [[nodiscard]] bool draws_drafts(int32_t slot) const;
  /// Writes what the draft passes of the next round need; part i is row i of the draft batch. Parts whose drafts are not drawn
  /// get the drafter's best tokens, as without a sampler.
  void stage_drafts(std::span<const SamplerPart> parts);

  /// Records the picks of a step: `logits` [T, V] are processed in place, `token_ids` [T] are those that the step fed, `picks`
  /// [T] gets the tokens.
  void record_picks(CommandList& cmd, const Tensor& logits, const Tensor& token_ids, const Tensor& picks) const;
  /// Records the verification after record_picks, for B = num_accepted.dim(0) parts: instead of AcceptDrafts, with the same
  /// results.
  void record_accept(CommandList& cmd, const Tensor& logits, const Tensor& token_ids, const Tensor& query_start_loc,
                     const Tensor& picks, const Tensor& num_accepted) const;
  /// Records draft `draft_idx` (from 0) of the first B = logits.dim(0) parts of stage_drafts: `logits` [B, V] of the drafter are
  /// processed in place, row i of `draft_token_ids` [max_drafts, at least B] has draft i of every part: those before draft_idx
  /// are read, the first B of row draft_idx are written. The same distributions are kept for record_accept.
  void record_drafts(CommandList& cmd, int64_t draft_idx, const Tensor& logits, const Tensor& draft_token_ids) const;

 private:
  /// One sequence.
  struct Slot {
    SamplingParams params;
    bool is_counted = false;           // has penalties
    std::vector<int32_t> output{};     // kept for masks only
    std::vector<int32_t> uncounted{};  // committed, not yet in the counts on the device
  };

  void declare_metadata();
  void allocate_tables();
  void clear_drafts();
  /// Throws InvalidState.
  void check_taken(int32_t slot) const;
  [[nodiscard]] Slot& taken(int32_t slot);
  [[nodiscard]] const Slot& taken(int32_t slot) const;
  void check(const SamplingParams& params) const;
  void upload_slot(Stream& stream, int32_t slot, const SamplingParams& params, int64_t num_prompt);
  void upload_counts(Stream& stream, int32_t slot, std::span<const int32_t> prompt, std::span<const int32_t> output);
  void count_committed(Stream& stream);
  /// Asks for the masks of a part's rows, as far as its drafts may hold.
  void stage_part_masks(Stream& stream, const SamplerPart& part, int64_t first_row, std::span<const int32_t> drafts);
  void upload_mask(Stream& stream, const SamplingParams& params, std::vector<uint32_t>& words, int64_t row);
  /// What all rows have in common.
  [[nodiscard]] ProcessLogits process(const Tensor& logits) const;

  GpuBackend& backend_;
  MetadataBuffer& round_;
  SamplerOptions options_;
  int64_t num_parts_;  // of a batch: max_sequences rounded up to a bucket
  std::vector<std::optional<Slot>> slots_;

  MetadataBuffer::Field row_slots_;        // [max_rows]
  MetadataBuffer::Field positions_;        // [max_rows]
  MetadataBuffer::Field history_;          // [max_rows, 2]
  MetadataBuffer::Field mask_rows_;        // [max_rows]
  MetadataBuffer::Field block_rows_;       // [num_parts]
  MetadataBuffer::Field draft_slots_;      // [num_parts]
  MetadataBuffer::Field draft_positions_;  // [max_drafts, num_parts]
  MetadataBuffer::Field draft_history_;    // [max_drafts, num_parts, 2]

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
  Tensor draft_ids_;           // [max_drafts, num_parts, C] I32
  Tensor draft_weights_;       // [max_drafts, num_parts, C] I64
  int64_t num_mask_rows_ = 0;  // of the step being staged
};

}  // namespace foretoken
