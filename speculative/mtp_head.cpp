#include "speculative/mtp_head.h"

#include <algorithm>
#include <array>

#include "core/error.h"
#include "layers/weight_operators.h"

namespace foretoken {
namespace {

size_t aligned(size_t bytes) { return (bytes + 255) / 256 * 256; }

/// The sizes of the layer, once the device is known to run the head.
LayerDims supported_dims(const GpuBackend& backend, const ModelConfig& config, const MtpWeights& weights,
                         const LinearWeight& lm_head, const MtpHeadOptions& options) {
  const LayerDims dims = layer_dims(config, options.activation_dtype);
  ops::require_any<MtpInput, RopeTable>(backend, "mtp head");
  require_linear(backend, "mtp head: fc", weights.fc, dims.activation_dtype, {1, options.max_rows});
  require_layer(backend, "mtp head", dims, weights.layer, {1, options.max_rows});
  require_lm_head(backend, "mtp head", lm_head, dims.activation_dtype, {1, options.max_drafting_rows});
  return dims;
}

}  // namespace

MtpHead::MtpHead(GpuBackend& backend, const ModelConfig& config, const MtpWeights& weights, const Tensor& embed_tokens,
                 const LinearWeight& lm_head, const MtpHeadOptions& options)
    : dims_(supported_dims(backend, config, weights, lm_head, options)),
      rope_theta_(config.rope_theta),
      options_(options),
      weights_(weights),
      embed_tokens_(embed_tokens),
      lm_head_(lm_head),
      fused_draft_(fused_lm_head(backend.ops(), lm_head, options.activation_dtype, {1, options.max_drafting_rows})),
      scratch_(backend, dims_, options.max_rows, options.max_seq_len, options.cache_dtype),
      layer_(dims_, weights.layer, scratch_) {
  if (options.token_map && !fused_draft_) {
    throw Error(ErrorCode::kUnsupported, "a draft vocabulary of chosen tokens needs a fused LM head: " + fused_draft_.reason());
  }
  if (!layer_.is_full_attention()) throw Error(ErrorCode::kInternalError, "the layer of an MTP head must be full attention");
  allocate(backend);
}

void MtpHead::allocate(GpuBackend& backend) {
  const int64_t rows = options_.max_rows;
  const int64_t hidden_size = dims_.hidden_size;
  struct Item {
    Tensor& tensor;
    DType dtype;
    Shape shape;
    size_t offset = 0;
  };
  std::array<Item, 4> items{{{joined_, dims_.activation_dtype, {rows, 2 * hidden_size}},
                             {residual_, DType::kF32, {rows, hidden_size}},
                             {hidden_, dims_.activation_dtype, {options_.max_drafting_rows, hidden_size}},
                             {cos_sin_, DType::kF32, {options_.max_rope_rows, dims_.rotary_dim}}}};
  size_t bytes = 0;
  for (Item& item : items) {
    item.offset = bytes;
    bytes += aligned(dtype_bytes(item.dtype, static_cast<size_t>(item.shape.num_elements())));
  }
  activations_ = backend.allocate(bytes);
  for (const Item& item : items) item.tensor = activations_.tensor(item.dtype, item.shape, item.offset);

  const OpTable& table = backend.ops();
  const PassKind pass{.rows = rows, .precision = LinearPrecision::kBF16, .activation_dtype = dims_.activation_dtype};
  const size_t prefill = aligned(
      std::max(prefill_workspace_bytes(table, dims_, weights_.layer, rows), linear_workspace_bytes(table, weights_.fc, pass)));
  const int64_t drafting = options_.max_drafting_rows;
  const size_t head = fused_draft_ ? aligned(lm_head_workspace_bytes(table, lm_head_, dims_.activation_dtype, drafting)) : 0;
  const Shape logits_shape{drafting, lm_head_.out_features()};
  const bool has_logits = options_.writes_logits || !fused_draft_;
  const size_t logits = has_logits ? dtype_bytes(DType::kF32, static_cast<size_t>(logits_shape.num_elements())) : 0;
  if (prefill + head + logits == 0) return;
  workspaces_ = backend.allocate(prefill + head + logits);
  if (prefill > 0) linear_workspace_ = workspaces_.tensor(DType::kU8, {static_cast<int64_t>(prefill)});
  if (head > 0) head_workspace_ = workspaces_.tensor(DType::kU8, {static_cast<int64_t>(head)}, prefill);
  if (has_logits) logits_ = workspaces_.tensor(DType::kF32, logits_shape, prefill + head);
}

LayerStep MtpHead::layer_step(const MtpPass& pass, int64_t first_row, int64_t num_rows) const {
  LayerStep step{.view = pass.view,
                 .cos_sin = pass.cos_sin.rows(first_row, num_rows),
                 .update = StateUpdate::kInPlace,
                 .precision = pass.precision,
                 .workspace = linear_workspace_};
  step.view.positions = pass.view.positions.rows(first_row, num_rows);
  step.view.slot_mapping = pass.view.slot_mapping.rows(first_row, num_rows);
  return step;
}

Tensor MtpHead::rope_angles(CommandList& cmd, const Tensor& positions) const {
  const Tensor angles = cos_sin_.rows(0, positions.dim(0));
  ops::rope_table(cmd, positions, angles, rope_theta_);
  return angles;
}

Tensor MtpHead::combine(CommandList& cmd, const MtpPass& pass) const {
  const int64_t rows = pass.next_token_ids.dim(0);
  const Tensor joined = joined_.rows(0, rows);
  const Tensor residual = residual_.rows(0, rows);
  ops::dispatch(cmd, MtpInput{.ids = pass.next_token_ids,
                              .table = embed_tokens_,
                              .hidden = pass.hidden,
                              .hidden_rows = pass.hidden_rows,
                              .embedding_norm = weights_.pre_fc_norm_embedding,
                              .hidden_norm = weights_.pre_fc_norm_hidden,
                              .out = joined,
                              .eps = dims_.rms_norm_eps});
  layer_step(pass, 0, rows).linear(cmd, joined, weights_.fc, residual);
  return residual;
}

void MtpHead::write_rows(CommandList& cmd, const MtpPass& pass, const PagedKvView& kv) const {
  const Tensor residual = combine(cmd, pass);
  layer_.write_cache(cmd, residual, layer_step(pass, 0, residual.dim(0)), kv);
}

void MtpHead::pick(CommandList& cmd, const Tensor& hidden, const Tensor& token_ids, const Tensor& logprobs) const {
  if (fused_draft_) {
    ops::dispatch(cmd, LinearArgmax{.x = hidden,
                                    .w = lm_head_,
                                    .token_map = options_.token_map,
                                    .token_ids = token_ids,
                                    .logprobs = logprobs,
                                    .workspace = head_workspace_});
    return;
  }
  if (logprobs) {
    throw Error(ErrorCode::kUnsupported, "log-probabilities of drafts need a fused LM head: " + fused_draft_.reason());
  }
  const Tensor logits = logits_.rows(0, hidden.dim(0));
  ops::linear(cmd, hidden, lm_head_, logits);
  ops::argmax(cmd, logits, token_ids);
}

Tensor MtpHead::forward(CommandList& cmd, const MtpPass& pass, const PagedKvView& kv) const {
  const Tensor rows = combine(cmd, pass);
  const int64_t drafting = pass.view.seq_lens.dim(0);
  const int64_t others = rows.dim(0) - drafting;
  if (others > 0) layer_.write_cache(cmd, rows.rows(drafting, others), layer_step(pass, drafting, others), kv);

  const Tensor residual = rows.rows(0, drafting);
  const Tensor hidden = hidden_.rows(0, drafting);
  layer_.forward(cmd, residual, PendingFfn::kNo, layer_step(pass, 0, drafting), kv, {});
  ops::add_rms_norm(cmd, scratch_.ffn.rows(0, drafting), residual, weights_.norm, hidden, dims_.rms_norm_eps);
  return hidden;
}

Tensor MtpHead::chain_input(int64_t num_rows) const {
  return (options_.chain == ChainKind::kPostNorm ? hidden_ : residual_).rows(0, num_rows);
}

Tensor MtpHead::draft(CommandList& cmd, const MtpPass& pass, const PagedKvView& kv, const Tensor& token_ids,
                      const Tensor& logprobs) const {
  const Tensor hidden = forward(cmd, pass, kv);
  pick(cmd, hidden, token_ids, logprobs);
  return chain_input(hidden.dim(0));
}

Tensor MtpHead::draft_logits(CommandList& cmd, const MtpPass& pass, const PagedKvView& kv, Tensor& logits) const {
  const Tensor hidden = forward(cmd, pass, kv);
  logits = logits_.rows(0, hidden.dim(0));
  ops::linear(cmd, hidden, lm_head_, logits);
  return chain_input(hidden.dim(0));
}

}  // namespace foretoken
