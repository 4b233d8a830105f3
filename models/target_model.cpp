#include "models/target_model.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/fault.h"
#include "layers/weight_operators.h"

namespace foretoken {
namespace {

size_t aligned(size_t bytes) { return (bytes + 255) / 256 * 256; }

/// The sizes of the layers, once the device is known to run them.
LayerDims supported_dims(const GpuBackend& backend, const ModelConfig& config, const TargetWeights& weights,
                         const TargetModelOptions& options) {
  const LayerDims dims = layer_dims(config, options.activation_dtype);
  const int64_t max_rows = options.max_rows;
  const int64_t verify_rows = std::min(max_rows, TargetModel::kMaxPickRows);
  ops::require_any<Embedding, RopeTable>(backend, "target");
  for (size_t i = 0; i < weights.layers.size(); ++i) {
    require_layer(backend, "target layer " + std::to_string(i), dims, weights.layers[i], {1, verify_rows, max_rows});
  }
  require_lm_head(backend, "target", weights.lm_head, dims.activation_dtype, {1, TargetModel::kMaxPickRows});
  return dims;
}

}  // namespace

LayerDims layer_dims(const ModelConfig& config, DType activation_dtype) {
  return {.hidden_size = config.hidden_size,
          .num_attention_heads = config.num_attention_heads,
          .num_key_value_heads = config.num_key_value_heads,
          .head_dim = config.head_dim,
          .rotary_dim = config.rotary_dim(),
          .conv_channels = config.conv_channels(),
          .linear_num_value_heads = config.linear_num_value_heads,
          .linear_key_head_dim = config.linear_key_head_dim,
          .linear_value_head_dim = config.linear_value_head_dim,
          .intermediate_size = config.is_moe() ? 0 : config.intermediate_size,
          .num_experts = config.num_experts,
          .num_experts_per_tok = config.num_experts_per_tok,
          .moe_intermediate_size = config.moe_intermediate_size,
          .shared_expert_intermediate_size = config.shared_expert_intermediate_size,
          .norm_topk_prob = config.norm_topk_prob,
          .rms_norm_eps = config.rms_norm_eps,
          .activation_dtype = activation_dtype};
}

TargetModel::TargetModel(GpuBackend& backend, const ModelConfig& config, TargetWeights weights, const TargetModelOptions& options)
    : config_(config),
      dims_(supported_dims(backend, config, weights, options)),
      options_(options),
      weights_(std::move(weights)),
      fused_pick_(fused_lm_head(backend.ops(), weights_.lm_head, options.activation_dtype, {1, kMaxPickRows})),
      scratch_(backend, dims_, options.max_rows, options.max_seq_len, options.cache_dtype) {
  layers_.reserve(weights_.layers.size());
  for (const DecoderLayerWeights& layer : weights_.layers) layers_.emplace_back(dims_, layer, scratch_);
  allocate(backend);
}

void TargetModel::allocate(GpuBackend& backend) {
  const OpTable& table = backend.ops();
  const Shape rows{options_.max_rows + options_.num_parked_rows, config_.hidden_size};
  const auto elements = static_cast<size_t>(rows.num_elements());
  const size_t residual_bytes = aligned(dtype_bytes(DType::kF32, elements));
  const size_t hidden_end = residual_bytes + aligned(dtype_bytes(options_.activation_dtype, elements));
  const Shape angles{options_.max_rows, config_.rotary_dim()};
  activations_ = backend.allocate(hidden_end + dtype_bytes(DType::kF32, static_cast<size_t>(angles.num_elements())));
  residual_ = activations_.tensor(DType::kF32, rows);
  hidden_ = activations_.tensor(options_.activation_dtype, rows, residual_bytes);
  cos_sin_ = activations_.tensor(DType::kF32, angles, hidden_end);

  size_t prefill_bytes = 0;
  for (const DecoderLayerWeights& layer : weights_.layers) {
    prefill_bytes = std::max(prefill_bytes, prefill_workspace_bytes(table, dims_, layer, options_.max_rows));
  }
  prefill_bytes = aligned(prefill_bytes);
  const size_t pick_bytes =
      fused_pick_ ? lm_head_workspace_bytes(table, weights_.lm_head, options_.activation_dtype, kMaxPickRows) : 0;
  if (prefill_bytes + pick_bytes == 0) return;
  workspaces_ = backend.allocate(prefill_bytes + pick_bytes);
  if (prefill_bytes > 0) linear_workspace_ = workspaces_.tensor(DType::kU8, {static_cast<int64_t>(prefill_bytes)});
  if (pick_bytes > 0) pick_workspace_ = workspaces_.tensor(DType::kU8, {static_cast<int64_t>(pick_bytes)}, prefill_bytes);
}

void TargetModel::forward(CommandList& cmd, const TargetPass& pass, const TargetCaches& caches) const {
  const int64_t rows = pass.input_ids.dim(0);
  const Tensor residual = residual_.rows(0, rows);
  const LayerStep step{.view = pass.view,
                       .cos_sin = cos_sin_.rows(0, rows),
                       .update = pass.update,
                       .precision = pass.precision,
                       .workspace = linear_workspace_};

  ops::embedding(cmd, pass.input_ids, weights_.embed_tokens, residual);
  ops::rope_table(cmd, pass.view.positions, step.cos_sin, config_.rope_theta);
  PendingFfn pending = PendingFfn::kNo;
  for (size_t i = 0; i < layers_.size(); ++i) {
    layers_[i].forward(cmd, residual, pending, step, caches.kv[i], caches.recurrent[i]);
    pending = PendingFfn::kYes;
  }
  ops::add_rms_norm(cmd, scratch_.ffn.rows(0, rows), residual, weights_.norm, hidden_.rows(0, rows), config_.rms_norm_eps);
  if (fault::active(Fault::kVerifyUlp) && pass.update == StateUpdate::kRecord && rows > 2) {
    // A slightly larger epsilon moves some elements of row 2 by one ulp; those of BF16 are further apart.
    const float eps = config_.rms_norm_eps * 1.5F + (hidden_.dtype() == DType::kBF16 ? 0.01F : 0.0F);
    ops::rms_norm(cmd, residual.rows(2, 1), weights_.norm, hidden_.rows(2, 1), eps);
  }
}

void TargetModel::pick(CommandList& cmd, const Tensor& hidden, const Tensor& token_ids) const {
  ops::dispatch(
      cmd,
      LinearArgmax{.x = hidden, .w = weights_.lm_head, .token_ids = token_ids, .logprobs = {}, .workspace = pick_workspace_});
}

}  // namespace foretoken
