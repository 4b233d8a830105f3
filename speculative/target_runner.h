// The target model with its caches: prefill in chunks, and steps over many sequences at once (plain rows, and verify rows of up
// to 16 per sequence) as replayed Programs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "cache/metadata_buffer.h"
#include "cache/paged_kv_cache.h"
#include "models/target_model.h"
#include "speculative/sampler.h"
#include "speculative/step_metadata.h"
#include "speculative/target_sequence.h"

namespace foretoken {

struct TargetRunnerOptions {
  int64_t max_seq_len = 0;       // tokens of a sequence, drafts included
  int32_t max_sequences = 1;     // alive at once, and in one step: 1 .. kMaxBatch
  int64_t num_kv_blocks = 0;     // of the KV cache; 0: enough for max_sequences of max_seq_len
  int64_t prefill_chunk = 512;   // rows of one prefill pass
  int64_t max_verify_rows = 16;  // of one sequence in a step, 1 .. kMaxVerifyRows
  int64_t num_parked_rows = 0;   // rows of hidden states behind those of the passes, for the caller
  LinearPrecision prefill_precision = LinearPrecision::kExact;
  DType cache_dtype = DType::kBF16;      // F32, BF16 or E4M3 with the scales of kv_scales
  DType activation_dtype = DType::kF32;  // of the inputs of linear layers: F32 or BF16
  int32_t block_size = 16;
  std::optional<SamplerOptions> sampling{};  // nothing: greedy steps only; its sizes of steps are those of the runner
  bool keep_logits = false;                  // write the logits of every row (self-check, tests) instead of picks only
};

/// Outcome of a step for one sequence.
struct StepResult {
  std::vector<int32_t> target_token_ids;  // the target's pick after each row
  int32_t num_accepted = 0;               // drafts that held; the rows up to the last of them are part of the sequence now
};

/// Works on one stream, one step at a time. Row results lie in fixed tensors until the next pass. A sequence's bits do not depend
/// on what else is in a step.
class TargetRunner {
 public:
  static constexpr int64_t kMaxVerifyRows = 16;

  /// Weights are views that must outlive it, like `round`: the metadata of a round, on which it declares its fields and which the
  /// caller allocates before the first step. Reserves all other memory. Where the device has no fused LM head for this weight
  /// (see TargetModel::fused_pick), steps write logits and pick from those: the same ids. Throws InvalidArgument (options);
  /// Unsupported when the backend lacks an operator, before anything is allocated; OutOfMemory.
  TargetRunner(GpuBackend& backend, Stream& stream, const ModelConfig& config, const TargetWeights& weights,
               const TargetRunnerOptions& options, MetadataBuffer& round);

  [[nodiscard]] const TargetModel& model() const { return model_; }
  [[nodiscard]] const TargetRunnerOptions& options() const { return options_; }
  [[nodiscard]] PagedKvCache& kv_cache() { return kv_cache_; }
  [[nodiscard]] const PagedKvCache& kv_cache() const { return kv_cache_; }
  [[nodiscard]] RecurrentStateStore& states() { return states_; }
  [[nodiscard]] const RecurrentStateStore& states() const { return states_; }
  /// Null without `sampling`. The slot of a sequence is that of its states; whoever creates the sequence lets it join and leave.
  [[nodiscard]] Sampler* sampler() { return sampler_ ? &*sampler_ : nullptr; }

  /// Fills an empty block table and a slot of zero states with what is known of a sequence; returns its number of tokens.
  using ResumeFn = std::function<int64_t(BlockTable& blocks, int32_t state_slot)>;
  /// A sequence with room for `budget_tokens`, empty unless `resume` is given. Throws OutOfMemory when caches or state slots are
  /// used up.
  [[nodiscard]] TargetSequence create_sequence(int64_t budget_tokens, const ResumeFn& resume = {});
  /// Adds the rows that the next step would commit to the states, so that they can be kept apart from the sequence.
  void commit(TargetSequence& sequence);
  /// Takes blocks for `num_rows` more rows; false, with nothing changed, when too few are free.
  [[nodiscard]] bool reserve(TargetSequence& sequence, int64_t num_rows) {
    return sequence.blocks_.reserve(sequence.num_tokens_ + num_rows);
  }
  /// Blocks that the sequence lacks for `num_rows` more rows.
  [[nodiscard]] int64_t missing_blocks(const TargetSequence& sequence, int64_t num_rows) const;

  /// Called after each prefill pass with the first position and the rows of the chunk; model().hidden() holds them.
  using ChunkFn = std::function<void(int64_t first_position, int64_t num_rows)>;

  /// Feeds prompt tokens in chunks (states advance in place), and leaves the pick after the last token in row 0 of picks(), its
  /// hidden states in row 0 of model().hidden() and residual(). Token ids must be in the vocabulary (InvalidArgument).
  void prefill(TargetSequence& sequence, std::span<const int32_t> token_ids, const ChunkFn& on_chunk);
  /// Throws InvalidArgument for an empty prompt and for token ids that are not in the vocabulary.
  void check_prompt(std::span<const int32_t> token_ids) const;
  /// Rows of the prefill pass that begins at position `first` of a prompt: passes end on the grid of prefill_chunk, wherever a
  /// prompt was resumed.
  [[nodiscard]] int64_t next_chunk(int64_t first, int64_t prompt_tokens) const {
    return std::min(options_.prefill_chunk - first % options_.prefill_chunk, prompt_tokens - first);
  }
  /// One pass of prefill: at most prefill_chunk tokens, without a pick.
  void prefill_chunk(TargetSequence& sequence, std::span<const int32_t> token_ids);
  /// After the last chunk of a prompt, of `num_rows` rows: pick and hidden states of its last row -> row 0.
  void finish_prefill(const TargetSequence& sequence, int64_t num_rows, bool is_sampled = false);

  /// Writes the next step's metadata; whoever uploads the round's buffer first takes it along. `block_token_ids`
  /// [sequences, 1 + max_drafts] I32 is where the drafter puts ids that the host does not know; absent when all are known. Throws
  /// InvalidArgument (no rows, too many, an id the host must know is missing), OutOfMemory (a sequence that outgrows its budget
  /// and finds no block), with nothing changed.
  void stage(std::span<const StepPart> parts, const Tensor& block_token_ids);
  /// Whether token masks need the drafts of the staged step on the host before it runs.
  [[nodiscard]] bool needs_draft_ids() const;
  /// Gives them: drafts[i] are those of part i.
  void stage_masks(std::span<const std::vector<int32_t>> drafts);
  /// Runs the staged step: the plain path where every sequence has one row, otherwise a verify step.
  void run();
  /// The round's only read-back: what came of each part. Accepted rows become part of their sequences.
  std::vector<StepResult> finish();
  /// Where a caller decides: of the last step's rows of `sequence`, the first `num_keep` are part of it.
  static void keep_rows(TargetSequence& sequence, const StepResult& result, int64_t num_keep);

  // Steps of one sequence.

  /// Feeds one token on the plain path; its pick is in row 0 of picks().
  void decode(TargetSequence& sequence, int32_t token_id);
  /// Runs the newest token and its drafts, `block_token_ids` [1 + K] I32 on the device; `finish` must follow.
  void verify(TargetSequence& sequence, const Tensor& block_token_ids);
  /// Reads the first `num_rows` picks; waits.
  [[nodiscard]] std::vector<int32_t> read_picks(int64_t num_rows);

  /// Greedy pick after each row of the last pass, [rows of a step] I32.
  [[nodiscard]] const Tensor& picks() const { return picks_; }
  /// [rows of a step, vocab_size] F32; absent unless keep_logits, or where picks need them. Sampled steps process them in place.
  [[nodiscard]] const Tensor& logits() const { return logits_; }

  /// Builds the Programs of steps in which `num_sequences` have one row each, or 1 + num_drafts; `is_sampled`: of sampled steps.
  void prepare(const Tensor& block_token_ids, int64_t num_sequences, int64_t num_drafts, bool is_sampled = false);

 private:
  /// A part of the staged step.
  struct Staged {
    TargetSequence* sequence;
    int64_t first_row;
    int64_t num_rows;
  };
  using ProgramKey = std::tuple<StepShape, DeviceAddress>;  // and the address of the drafter's token ids

  void allocate_outputs(GpuBackend& backend);
  [[nodiscard]] bool writes_logits() const { return options_.keep_logits || !model_.fused_pick(); }
  void stage_sampler(std::span<const StepPart> parts);
  void check_parts(std::span<const StepPart> parts, const Tensor& block_token_ids) const;
  void reserve_rows(std::span<const StepPart> parts);
  void pick(CommandList& cmd, int64_t first_row, int64_t num_rows) const;
  void pick_sampled(CommandList& cmd, int64_t first_row, const Tensor& token_ids) const;
  void read_back(CommandList& cmd, int64_t num_rows) const;
  /// Picks that the last pass read back, once they are there.
  [[nodiscard]] std::span<const int32_t> wait_for_picks();
  [[nodiscard]] std::span<const int32_t> accepted_counts() const;
  void record_step(CommandList& cmd, const StepShape& shape, const Tensor& block_token_ids) const;
  const Program& program(const StepShape& shape, const Tensor& block_token_ids);

  GpuBackend& backend_;
  Stream& stream_;
  TargetRunnerOptions options_;
  int64_t max_step_rows_;
  TargetModel model_;
  PagedKvCache kv_cache_;
  RecurrentStateStore states_;
  TargetCaches caches_;
  MetadataBuffer prefill_metadata_;
  StepMetadata prefill_;
  StepMetadata step_;
  std::optional<Sampler> sampler_;
  std::vector<SamplerPart> sampler_parts_;  // of the staged step
  std::vector<Staged> staged_;
  StepShape staged_shape_;
  Tensor staged_block_;
  Buffer outputs_;
  Buffer read_back_;  // what the host reads of outputs_, in memory of its own: every step ends with that copy
  Buffer logits_memory_;
  Tensor token_ids_;     // [rows of a step] I32, fed
  Tensor num_accepted_;  // [sequences] I32
  Tensor picks_;         // [rows of a step] I32, behind the counts, so one read-back takes both
  Tensor logits_;
  std::map<ProgramKey, Program> programs_;
};

}  // namespace foretoken
