// Drafting with an MTP head: its paged cache, one Program per (rows taken in, drafts), exact rows by default.
//
// Row policy: a row built from a target hidden state is exact and stays; the rows of chained passes are rebuilt. After a verify
// that accepted a drafts, propose is given the a + 1 missing exact rows and takes them in with its first pass, so the drafter
// always holds each pair key of the committed text once. Row with pair key k lies in slot k of its block table.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "cache/metadata_buffer.h"
#include "cache/paged_kv_cache.h"
#include "speculative/draft_proposer.h"
#include "speculative/mtp_head.h"

namespace foretoken {

struct MtpProposerOptions {
  int64_t max_seq_len = 0;    // tokens of a sequence
  int32_t max_sequences = 1;  // states alive at once
  int64_t max_drafts = 15;    // of one propose
  int64_t max_append_rows = 512;
  DType cache_dtype = DType::kBF16;      // F32, BF16 or E4M3 with the scales of kv_scales
  DType activation_dtype = DType::kF32;  // of the inputs of linear layers: F32 or BF16
  int32_t block_size = 16;
  HiddenKind hidden = HiddenKind::kPostNorm;
  ChainKind chain = ChainKind::kPostNorm;
  bool measure_log_probabilities = false;
};

class MtpProposer final : public DraftProposer {
 public:
  /// Weights are views that must outlive it. Reserves all memory. Throws OutOfMemory; Unsupported when the backend lacks an
  /// operator.
  MtpProposer(GpuBackend& backend, const ModelConfig& config, const MtpWeights& weights, const Tensor& embed_tokens,
              const LinearWeight& lm_head, const MtpProposerOptions& options);

  [[nodiscard]] std::string_view name() const override { return "mtp"; }
  [[nodiscard]] HiddenKind hidden_kind() const override { return options_.hidden; }
  [[nodiscard]] int64_t max_drafts() const override { return options_.max_drafts; }
  [[nodiscard]] int64_t max_request_rows() const override { return options_.max_drafts + 1; }
  [[nodiscard]] int64_t max_append_rows() const override { return options_.max_append_rows; }
  [[nodiscard]] std::unique_ptr<ProposerState> alloc_state(int64_t budget_tokens) override;
  void append_rows(Stream& stream, std::span<const int32_t> next_token_ids, const Tensor& hidden, LinearPrecision precision,
                   ProposerState& state) override;
  [[nodiscard]] Tensor propose(Stream& stream, const DraftRequest& request, ProposerState& state) override;
  [[nodiscard]] Tensor log_probabilities() const override;
  void after_verify(int64_t num_accepted, ProposerState& state) override;
  [[nodiscard]] int64_t num_rows(const ProposerState& state) const override;
  [[nodiscard]] std::optional<int64_t> last_pair_key(const ProposerState& state) const override;
  [[nodiscard]] DrafterKv take_kv(ProposerState& state) override;
  void install_kv(DrafterKv& kv, int64_t num_rows, ProposerState& state) override;

  [[nodiscard]] const MtpProposerOptions& options() const { return options_; }
  /// Builds the Programs for 1 .. num_drafts + 1 rows at fixed input tensors ([max_request_rows, ...]), so the first round is as
  /// fast as the tenth.
  void prepare(const Tensor& next_token_ids, const Tensor& hidden, int64_t num_drafts);

  /// The newest token and its drafts, [1 + max_drafts] I32: what propose returns the first rows of.
  [[nodiscard]] const Tensor& block_token_ids() const { return block_token_ids_; }
  [[nodiscard]] const MtpHead& head() const { return head_; }
  [[nodiscard]] const PagedKvCache& cache() const { return cache_; }

 private:
  struct State;
  /// Rows taken in, drafts, addresses of the inputs.
  using ProgramKey = std::tuple<int64_t, int64_t, DeviceAddress, DeviceAddress>;

  [[nodiscard]] static const State& typed(const ProposerState& state);
  [[nodiscard]] static State& typed(ProposerState& state);
  void declare_metadata(GpuBackend& backend);
  void upload_metadata(Stream& stream, const State& state, int64_t first_key, int64_t num_rows, int64_t num_passes);
  void reserve(State& state, int64_t num_rows);
  void record_passes(CommandList& cmd, const DraftRequest& request) const;
  [[nodiscard]] MtpPass pass_view(int64_t first_row, int64_t num_rows, int64_t pass_idx) const;
  const Program& program(const DraftRequest& request);

  GpuBackend& backend_;
  MtpProposerOptions options_;
  MtpHead head_;
  PagedKvCache cache_;
  MetadataBuffer metadata_;
  MetadataBuffer::Field append_token_ids_;  // [max_append_rows]
  MetadataBuffer::Field positions_;         // [max_rows]
  MetadataBuffer::Field slot_mapping_;      // [max_rows]
  MetadataBuffer::Field seq_lens_;          // [max_drafts], one per pass
  MetadataBuffer::Field query_start_loc_;   // [2], the one row that attends
  MetadataBuffer::Field block_table_;       // [1, max_blocks_per_seq], uploaded as far as it is used
  Buffer outputs_;
  Tensor block_token_ids_;  // [1 + max_drafts] I32
  Tensor logprobs_;         // [max_drafts] F32
  std::map<ProgramKey, Program> programs_;
};

}  // namespace foretoken
