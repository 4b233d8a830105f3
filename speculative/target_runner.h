// The target model with its caches: prefill in chunks, plain one-row steps, verify steps of up to 16 rows, as replayed Programs.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <tuple>
#include <vector>

#include "cache/metadata_buffer.h"
#include "cache/paged_kv_cache.h"
#include "cache/recurrent_state_store.h"
#include "models/target_model.h"

namespace foretoken {

struct TargetRunnerOptions {
  int64_t max_seq_len = 0;      // tokens of a sequence, drafts included
  int32_t max_sequences = 1;    // alive at once
  int64_t prefill_chunk = 512;  // rows of one prefill pass
  LinearPrecision prefill_precision = LinearPrecision::kExact;
  DType cache_dtype = DType::kBF16;      // F32, BF16 or E4M3 with the scales of kv_scales
  DType activation_dtype = DType::kF32;  // of the inputs of linear layers: F32 or BF16
  int32_t block_size = 16;
  bool keep_logits = false;      // write the logits of every row (self-check, tests) instead of picks only
  bool override_drafts = false;  // verify steps replace drafts by forced_token_ids() where those are not -1
};

/// Target-side memory of one sequence; returns it when destroyed. The runner must outlive it.
class TargetSequence {
 public:
  TargetSequence(BlockTable blocks, RecurrentStateStore& states, int32_t state_slot);
  ~TargetSequence();
  TargetSequence(TargetSequence&& other) noexcept;
  TargetSequence& operator=(TargetSequence&&) = delete;

  /// Tokens in the cache.
  [[nodiscard]] int64_t num_tokens() const { return num_tokens_; }

 private:
  friend class TargetRunner;
  BlockTable blocks_;
  RecurrentStateStore* states_;  // null: moved from
  int32_t state_slot_;
  int64_t num_tokens_ = 0;
  int32_t num_commit_ = 0;  // recorded rows of the last verify step that the next step adds to the states
};

/// Outcome of a verify step.
struct VerifyResult {
  std::vector<int32_t> target_token_ids;  // the target's pick after each row
  int32_t num_accepted = 0;
};

/// Works on one stream, one step at a time. Row results lie in fixed tensors until the next step.
class TargetRunner {
 public:
  static constexpr int64_t kMaxVerifyRows = 16;

  /// Weights are views that must outlive it. Reserves all memory. Where the device has no fused LM head for this weight (see
  /// TargetModel::fused_pick), steps write logits and pick from those: the same ids. Throws Unsupported when the backend lacks an
  /// operator, before anything is allocated; OutOfMemory.
  TargetRunner(GpuBackend& backend, Stream& stream, const ModelConfig& config, const TargetWeights& weights,
               const TargetRunnerOptions& options);

  [[nodiscard]] const TargetModel& model() const { return model_; }
  [[nodiscard]] const TargetRunnerOptions& options() const { return options_; }
  [[nodiscard]] const PagedKvCache& kv_cache() const { return kv_cache_; }
  [[nodiscard]] const RecurrentStateStore& states() const { return states_; }

  /// An empty sequence with room for `budget_tokens`. Throws OutOfMemory when caches or state slots are used up.
  [[nodiscard]] TargetSequence create_sequence(int64_t budget_tokens);

  /// Called after each prefill pass with the first position and the rows of the chunk; model().hidden() holds them.
  using ChunkFn = std::function<void(int64_t first_position, int64_t num_rows)>;

  /// Feeds prompt tokens in chunks (states advance in place), and leaves the pick after the last token in row 0 of picks(), its
  /// hidden states in row 0 of model().hidden() and residual(). Token ids must be in the vocabulary (InvalidArgument).
  void prefill(TargetSequence& sequence, std::span<const int32_t> token_ids, const ChunkFn& on_chunk);

  /// Feeds one token on the plain one-row path; its pick is in row 0 of picks().
  void decode(TargetSequence& sequence, int32_t token_id);

  /// Runs the newest token and its drafts, `block_token_ids` [1 + K] I32 on the device, and accepts greedily on the device.
  /// `finish_verify` must follow before the next step of this sequence.
  void verify(TargetSequence& sequence, const Tensor& block_token_ids);
  /// The round's only read-back: the picks after the step's `num_rows` rows and how many drafts held. The accepted rows become
  /// part of the sequence, or the first `num_keep` where a caller decides (0: as accepted).
  VerifyResult finish_verify(TargetSequence& sequence, int64_t num_rows, int64_t num_keep = 0);

  /// Reads the first `num_rows` picks; waits.
  [[nodiscard]] std::vector<int32_t> read_picks(int64_t num_rows);

  /// Greedy pick after each row, [16] I32.
  [[nodiscard]] const Tensor& picks() const { return picks_; }
  /// [16, vocab_size] F32; absent unless keep_logits, or where picks need them.
  [[nodiscard]] const Tensor& logits() const { return logits_; }
  /// Forced drafts of the next verify step, host side, [15]; -1 keeps a draft. Used with override_drafts.
  [[nodiscard]] std::span<int32_t> forced_token_ids() { return metadata_.i32(forced_); }

  /// Builds the Programs of a plain step and of a verify step of 1 + num_drafts rows.
  void prepare(const Tensor& block_token_ids, int64_t num_drafts);

 private:
  void declare_metadata(GpuBackend& backend);
  void allocate_outputs(GpuBackend& backend);
  [[nodiscard]] bool writes_logits() const { return options_.keep_logits || !model_.fused_pick(); }
  [[nodiscard]] StepView step_view(int64_t rows) const;
  void upload_metadata(const TargetSequence& sequence, int64_t rows);
  void pick(CommandList& cmd, int64_t first_row, int64_t num_rows) const;
  void read_back(CommandList& cmd) const;
  /// What the last step read back, once it is there.
  [[nodiscard]] std::span<const int32_t> wait_for_outputs();
  void record_decode(CommandList& cmd) const;
  void record_verify(CommandList& cmd, const Tensor& block_token_ids) const;
  const Program& decode_program();
  const Program& verify_program(const Tensor& block_token_ids);
  void reserve(TargetSequence& sequence, int64_t rows);
  void prefill_chunk(TargetSequence& sequence, std::span<const int32_t> token_ids);

  GpuBackend& backend_;
  Stream& stream_;
  TargetRunnerOptions options_;
  TargetModel model_;
  PagedKvCache kv_cache_;
  RecurrentStateStore states_;
  TargetCaches caches_;
  MetadataBuffer metadata_;
  MetadataBuffer::Field input_ids_;        // [max_rows]
  MetadataBuffer::Field positions_;        // [max_rows]
  MetadataBuffer::Field slot_mapping_;     // [max_rows]
  MetadataBuffer::Field query_start_loc_;  // [2]
  MetadataBuffer::Field seq_lens_;         // [1]
  MetadataBuffer::Field state_slots_;      // [1]
  MetadataBuffer::Field num_commit_;       // [1]
  MetadataBuffer::Field forced_;           // [15]
  MetadataBuffer::Field block_table_;      // [1, max_blocks_per_seq], uploaded as far as it is used
  Buffer outputs_;
  Buffer read_back_;  // what the host reads of outputs_, in memory of its own: every step ends with that copy
  Buffer logits_memory_;
  Tensor picks_;         // [16] I32
  Tensor num_accepted_;  // [1] I32, behind the picks, so one read-back takes both
  Tensor logits_;
  Program decode_program_;
  std::map<std::tuple<int64_t, DeviceAddress>, Program> verify_programs_;  // by rows and address of the token ids
};

}  // namespace foretoken
