// Drafting with an MTP head: its paged cache, one Program per shape of a batch, exact rows by default.
//
// Rows lie in its cache in the order in which they came. With the exact policy, a row built from a target hidden state stays and
// the rows of chained passes are rebuilt: after a verify that accepted a drafts, propose is given the a + 1 missing rows and
// takes them in with its first pass, so the drafter always holds each pair key of the committed text once, key k in slot k.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "cache/metadata_buffer.h"
#include "cache/paged_kv_cache.h"
#include "speculative/draft_program.h"
#include "speculative/draft_proposer.h"
#include "speculative/mtp_head.h"
#include "speculative/row_policy.h"
#include "speculative/sampler.h"

namespace foretoken {

struct MtpProposerOptions {
  int64_t max_seq_len = 0;    // tokens of a sequence
  int32_t max_sequences = 1;  // states alive at once; as many, but at most kMaxBatch, are drafted for together
  int64_t max_drafts = 15;    // of one sequence in one propose
  int64_t max_append_rows = 512;
  DType cache_dtype = DType::kBF16;      // F32, BF16 or E4M3 with the scales of kv_scales
  DType activation_dtype = DType::kF32;  // of the inputs of linear layers: F32 or BF16
  int32_t block_size = 16;
  RowPolicy rows = RowPolicy::kExact;
  HiddenKind hidden = HiddenKind::kPostNorm;
  ChainKind chain = ChainKind::kPostNorm;
  Tensor token_map{};  // see MtpHeadOptions
  bool measure_log_probabilities = false;
  /// In (0, 1): a chain ends with its first draft that the head gives a smaller probability. Passes then run one by one with a
  /// read-back each. Drafts that the sampler draws are not measured and end no chain.
  std::optional<double> confidence_stop{};
  Sampler* sampler = nullptr;  // draws the drafts of the slots that sample theirs; must outlive the proposer. Null: best tokens
};

class MtpProposer final : public DraftProposer {
 public:
  /// Weights are views that must outlive it, like `round`: the metadata of a round, on which it declares its fields and which the
  /// caller allocates before the first propose or prepare. Reserves all other memory. Throws OutOfMemory; InvalidArgument
  /// (options); Unsupported when the backend lacks an operator, or a fused LM head for log-probabilities to stop by.
  MtpProposer(GpuBackend& backend, const ModelConfig& config, const MtpWeights& weights, const Tensor& embed_tokens,
              const LinearWeight& lm_head, const MtpProposerOptions& options, MetadataBuffer& round);

  [[nodiscard]] std::string_view name() const override { return "mtp"; }
  [[nodiscard]] HiddenKind hidden_kind() const override { return options_.hidden; }
  [[nodiscard]] int64_t max_drafts() const override { return options_.max_drafts; }
  [[nodiscard]] int64_t max_parts() const override { return std::min<int64_t>(options_.max_sequences, kMaxBatch); }
  [[nodiscard]] int64_t max_part_rows() const override { return options_.max_drafts + 1; }
  [[nodiscard]] int64_t max_append_rows() const override { return options_.max_append_rows; }
  [[nodiscard]] std::unique_ptr<ProposerState> alloc_state(int64_t budget_tokens) override;
  void append_rows(Stream& stream, std::span<const int32_t> next_token_ids, const Tensor& hidden, LinearPrecision precision,
                   ProposerState& state) override;
  [[nodiscard]] Tensor propose(Stream& stream, std::span<const DraftPart> parts, const Tensor& hidden) override;
  [[nodiscard]] Tensor log_probabilities() const override;
  [[nodiscard]] const Tensor& block_token_ids() const override { return block_token_ids_; }
  [[nodiscard]] bool may_stop_early() const override { return options_.confidence_stop.has_value(); }
  int64_t after_verify(int64_t num_accepted, ProposerState& state) override;
  [[nodiscard]] int64_t num_rows(const ProposerState& state) const override;
  [[nodiscard]] int64_t num_drafted(const ProposerState& state) const override;
  [[nodiscard]] std::optional<int64_t> last_pair_key(const ProposerState& state) const override;
  [[nodiscard]] int64_t first_missing_key(const ProposerState& state) const override;
  void skip_to(int64_t first_key, ProposerState& state) override;
  [[nodiscard]] PagedKvCache& kv_cache() override { return cache_; }
  [[nodiscard]] const PagedKvCache& kv_cache() const override { return cache_; }
  [[nodiscard]] std::span<const int32_t> kv_blocks(const ProposerState& state) const override;
  [[nodiscard]] DrafterKv take_kv(ProposerState& state) override;
  void install_kv(DrafterKv& kv, int64_t num_keys, ProposerState& state) override;

  [[nodiscard]] const MtpProposerOptions& options() const { return options_; }
  /// Holds from the next after_verify on.
  void set_row_policy(RowPolicy rows) { options_.rows = rows; }
  /// Builds the Programs of `num_sequences` sequences with 1 .. num_rows rows each that read `hidden`, so the first round is as
  /// fast as the tenth. `is_drawn`: those whose drafts the sampler draws, which must be there.
  void prepare(const Tensor& hidden, int64_t num_sequences, int64_t num_rows, int64_t num_drafts, bool is_drawn);

  [[nodiscard]] const MtpHead& head() const { return head_; }
  /// For whoever writes a DraftProgram.
  [[nodiscard]] const DraftProgramBinding& binding() const { return binding_; }

 private:
  friend class InstalledDraftProgram;
  struct State;
  static constexpr int64_t kAllPasses = -1;
  /// Shape of the batch, address and rows of the hidden states, whether drafts are drawn, and what of the batch: kAllPasses, a
  /// pass, or, as the pass after the last one, what puts the blocks together.
  using ProgramKey = std::tuple<DraftBucket, DeviceAddress, int64_t, bool, int64_t>;

  [[nodiscard]] const State& typed(const ProposerState& state) const;
  [[nodiscard]] State& typed(ProposerState& state) const;
  void check_confidence_stop() const;
  void declare_append_metadata(GpuBackend& backend);
  void allocate_outputs(GpuBackend& backend);
  void check_part(const DraftPart& part, const Tensor& hidden) const;
  /// The rows that a part writes, with blocks for them.
  [[nodiscard]] DraftRows draft_rows(const DraftPart& part) const;
  void reserve(State& state, int64_t num_rows) const;
  /// Whether a part's drafts are drawn by the sampler; then it is told of all parts.
  bool stage_sampler(std::span<const DraftPart> parts, std::span<const DraftRows> sequences);
  /// Runs a batch; returns how many drafts each part has.
  std::vector<int64_t> run_batch(Stream& stream, std::span<const DraftPart> parts, const DraftBucket& bucket,
                                 const Tensor& hidden, bool is_drawn);
  std::vector<int64_t> run_until_unsure(Stream& stream, std::span<const DraftPart> parts, const DraftBucket& bucket,
                                        const Tensor& hidden);
  [[nodiscard]] bool is_served(const DraftBucket& bucket) const;
  void record(CommandList& cmd, const DraftBucket& bucket, const Tensor& hidden, bool is_drawn, int64_t pass_idx) const;
  void record_pass(CommandList& cmd, const DraftBucket& bucket, const Tensor& hidden, bool is_drawn, int64_t pass_idx) const;
  void record_draft(CommandList& cmd, const MtpPass& pass, int64_t pass_idx, bool is_drawn) const;
  void record_block(CommandList& cmd, const DraftBucket& bucket) const;
  [[nodiscard]] MtpPass first_pass(const DraftBucket& bucket, const Tensor& hidden) const;
  [[nodiscard]] MtpPass chained_pass(const DraftBucket& bucket, int64_t pass_idx) const;
  const Program& program(const DraftBucket& bucket, const Tensor& hidden, bool is_drawn, int64_t pass_idx);

  GpuBackend& backend_;
  MtpProposerOptions options_;
  DraftLimits limits_;
  MtpHead head_;
  PagedKvCache cache_;
  DraftMetadata metadata_;
  MetadataBuffer append_metadata_;
  MetadataBuffer::Field append_token_ids_;     // [max_append_rows]
  MetadataBuffer::Field append_positions_;     // [max_append_rows]
  MetadataBuffer::Field append_slot_mapping_;  // [max_append_rows]
  Buffer outputs_;
  Tensor draft_token_ids_;  // [max_drafts, max_sequences] I32: row i is written by pass i
  Tensor block_token_ids_;  // [max_sequences, 1 + max_drafts] I32
  Tensor logprobs_;         // [max_drafts, max_sequences] F32
  std::map<ProgramKey, Program> programs_;
  DraftProgramBinding binding_;
  DraftProgram* draft_program_ = nullptr;     // in place of programs_ where it serves
  std::unique_ptr<Event> draft_program_ran_;  // after its last run
};

/// A DraftProgram at work in a proposer for as long as this lives. Both must outlive it. Not thread-safe.
class InstalledDraftProgram {
 public:
  /// Throws InvalidState when the proposer has one already, Unsupported when the binding lists something unmodelled.
  InstalledDraftProgram(MtpProposer& proposer, DraftProgram& program);
  /// Waits until the device has done what the program put on a stream.
  ~InstalledDraftProgram();
  InstalledDraftProgram(const InstalledDraftProgram&) = delete;
  InstalledDraftProgram& operator=(const InstalledDraftProgram&) = delete;

 private:
  MtpProposer& proposer_;
};

}  // namespace foretoken
