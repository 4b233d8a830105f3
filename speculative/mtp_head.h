// The multi-token-prediction head: r = fc [rms(embed(t_{k+1})), rms(h_k)], one decoder layer on r, final norm, the target's LM
// head. The embedding half comes first, as Qwen checkpoints store fc; r itself is the residual stream.
#pragma once

#include "layers/decoder_layer.h"
#include "models/model_config.h"
#include "models/target_model.h"

namespace foretoken {

/// What a chained pass is fed: the head's output after its final norm, or the residual stream before it.
enum class ChainKind : uint8_t { kPostNorm, kPreNorm };

struct MtpHeadOptions {
  int64_t max_rows = 512;         // of a pass
  int64_t max_drafting_rows = 1;  // of those, the rows that draft: one for each sequence
  int64_t max_rope_rows = 512;    // of one call of rope_angles
  int64_t max_seq_len = 0;
  DType cache_dtype = DType::kBF16;
  DType activation_dtype = DType::kF32;  // of the inputs of linear layers: F32 or BF16
  ChainKind chain = ChainKind::kPostNorm;
  Tensor token_map{};          // [rows of the LM head] I32, the token of each; absent: row n is token n
  bool writes_logits = false;  // room for draft_logits
};

/// Rows of one pass of the head: first those that draft, one for each of B sequences, then those that only enter the cache.
struct MtpPass {
  Tensor next_token_ids;  // [T] I32
  Tensor hidden;          // [N, hidden_size] F32 or BF16, the target's or the chain's
  Tensor hidden_rows{};   // [T] I32: the row of `hidden` of each row; absent: row t, and N = T
  Tensor cos_sin;         // [T, rotary_dim], of the rows' positions, see MtpHead::rope_angles
  StepView view;          // positions and slots of the T rows; seq_lens, query_start_loc and block_table of the B that attend
  LinearPrecision precision = LinearPrecision::kExact;
};

/// Weights are views that must outlive it; owns its activations, which are those of the last pass. Passes allocate nothing.
class MtpHead {
 public:
  /// `embed_tokens` and `lm_head` are the target's. Where the device has no fused LM head for this weight, drafts come from
  /// logits: the same ids, without log-probabilities; a token map needs one. Throws Unsupported when the backend lacks an
  /// operator, before anything is allocated; OutOfMemory.
  MtpHead(GpuBackend& backend, const ModelConfig& config, const MtpWeights& weights, const Tensor& embed_tokens,
          const LinearWeight& lm_head, const MtpHeadOptions& options);

  [[nodiscard]] const MtpHeadOptions& options() const { return options_; }

  /// Whether drafts come from a fused LM head; the device's reason otherwise.
  [[nodiscard]] const Availability& fused_draft() const { return fused_draft_; }

  /// The angles of `positions` [R] I32, R at most max_rope_rows: those of all passes of a Program, in one launch. They hold until
  /// the next call.
  Tensor rope_angles(CommandList& cmd, const Tensor& positions) const;

  /// Writes the cache rows of all T rows. No attention: a row's K and V depend on its input pair only.
  void write_rows(CommandList& cmd, const MtpPass& pass, const PagedKvView& kv) const;

  /// Writes the cache rows of all T rows and drafts from the first B: token_ids [B] I32, logprobs [B] F32 or absent, always
  /// absent without fused_draft(). Returns the chain input for the next pass, [B, hidden_size]: of the activation dtype after the
  /// final norm, F32 before it.
  Tensor draft(CommandList& cmd, const MtpPass& pass, const PagedKvView& kv, const Tensor& token_ids,
               const Tensor& logprobs) const;

  /// Likewise, but the drafts are the caller's to choose: `logits` becomes those of the LM head, [B, rows of the LM head] F32, in
  /// memory of the head until the next pass. Needs writes_logits.
  Tensor draft_logits(CommandList& cmd, const MtpPass& pass, const PagedKvView& kv, Tensor& logits) const;

  /// The angles of the last rope_angles, [max_rope_rows, rotary_dim].
  [[nodiscard]] const Tensor& angles() const { return cos_sin_; }
  /// What the last pass, of which `num_rows` drafted, left for the next one: as draft returned it.
  [[nodiscard]] Tensor chain_input(int64_t num_rows) const;

  // Activations of the last pass, for tests. Those of the decoder layer are of the rows that draft, the first B of each.
  [[nodiscard]] const LayerScratch& scratch() const { return scratch_; }
  [[nodiscard]] const Tensor& joined() const { return joined_; }      // [T, 2 * hidden_size]
  [[nodiscard]] const Tensor& residual() const { return residual_; }  // [T, hidden_size], before the final norm
  [[nodiscard]] const Tensor& hidden() const { return hidden_; }      // [B, hidden_size], after it

 private:
  void allocate(GpuBackend& backend);
  /// All of a drafting pass before the LM head: hidden [B, hidden_size], after the final norm.
  Tensor forward(CommandList& cmd, const MtpPass& pass, const PagedKvView& kv) const;
  /// hidden [B, hidden_size] -> token_ids and logprobs.
  void pick(CommandList& cmd, const Tensor& hidden, const Tensor& token_ids, const Tensor& logprobs) const;
  /// r of all rows -> residual_; returns the rows.
  Tensor combine(CommandList& cmd, const MtpPass& pass) const;
  [[nodiscard]] LayerStep layer_step(const MtpPass& pass, int64_t first_row, int64_t num_rows) const;

  LayerDims dims_;
  double rope_theta_;
  MtpHeadOptions options_;
  MtpWeights weights_;
  Tensor embed_tokens_;
  LinearWeight lm_head_;
  Availability fused_draft_;
  LayerScratch scratch_;
  DecoderLayer layer_;
  Buffer activations_;
  Buffer workspaces_;
  Tensor joined_;            // [max_rows, 2 * hidden_size]
  Tensor residual_;          // [max_rows, hidden_size]
  Tensor hidden_;            // [max_drafting_rows, hidden_size]
  Tensor cos_sin_;           // [max_rope_rows, rotary_dim]
  Tensor linear_workspace_;  // bytes
  Tensor head_workspace_;    // bytes, of the fused LM head
  Tensor logits_;            // [max_drafting_rows, rows of the LM head], without a fused one and with writes_logits
};

}  // namespace foretoken
