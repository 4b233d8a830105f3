#include "layers/decoder_layer.h"

#include "core/error.h"

namespace foretoken {

DecoderLayer::DecoderLayer(const LayerDims& dims, const DecoderLayerWeights& weights, const LayerScratch& scratch)
    : dims_(dims),
      input_layernorm_(weights.input_layernorm),
      post_attention_layernorm_(weights.post_attention_layernorm),
      s_(scratch) {
  if (weights.self_attn.has_value() == weights.linear_attn.has_value() || weights.mlp.has_value() == weights.moe.has_value()) {
    throw Error(ErrorCode::kInternalError, "a decoder layer needs one kind of attention and one kind of feed-forward");
  }
  if (weights.self_attn) attention_.emplace(dims, *weights.self_attn, scratch);
  if (weights.linear_attn) delta_net_.emplace(dims, *weights.linear_attn, scratch);
  if (weights.mlp) mlp_.emplace(*weights.mlp, scratch.act);
  if (weights.moe) moe_.emplace(dims, *weights.moe, scratch);
}

void DecoderLayer::forward(CommandList& cmd, const Tensor& residual, PendingFfn pending, const LayerStep& step,
                           const PagedKvView& kv, const RecurrentStateView& state) const {
  const int64_t rows = residual.dim(0);
  const Tensor input_norm = s_.input_norm.rows(0, rows);
  const Tensor post_norm = s_.post_norm.rows(0, rows);
  const Tensor ffn = s_.ffn.rows(0, rows);

  if (pending == PendingFfn::kYes) {
    ops::add_rms_norm(cmd, ffn, residual, input_layernorm_, input_norm, dims_.rms_norm_eps);
  } else {
    ops::rms_norm(cmd, residual, input_layernorm_, input_norm, dims_.rms_norm_eps);
  }
  if (attention_) {
    attention_->forward(cmd, input_norm, step, kv);
  } else {
    delta_net_->forward(cmd, input_norm, step, state);
  }
  ops::add_rms_norm(cmd, s_.mixed.rows(0, rows), residual, post_attention_layernorm_, post_norm, dims_.rms_norm_eps);
  if (mlp_) {
    mlp_->forward(cmd, post_norm, step, ffn);
  } else {
    moe_->forward(cmd, post_norm, step, ffn);
  }
}

void DecoderLayer::write_cache(CommandList& cmd, const Tensor& residual, const LayerStep& step, const PagedKvView& kv) const {
  const Tensor input_norm = s_.input_norm.rows(0, residual.dim(0));
  ops::rms_norm(cmd, residual, input_layernorm_, input_norm, dims_.rms_norm_eps);
  attention_->write_cache(cmd, input_norm, step, kv);
}

}  // namespace foretoken
