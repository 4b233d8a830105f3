// The target: embed, decoder layers, final norm, LM head. One class serves Qwen3.5 (dense and MoE) and Qwen3-Next: the loader
// brings their weights into one order, and the layer types of the config do the rest.
#pragma once

#include <optional>
#include <vector>

#include "layers/decoder_layer.h"
#include "models/model_config.h"

namespace foretoken {

/// The sizes that layers need, from a config.
[[nodiscard]] LayerDims layer_dims(const ModelConfig& config, DType activation_dtype = DType::kF32);

struct TargetModelOptions {
  int64_t max_rows = 512;       // of one pass
  int64_t num_parked_rows = 0;  // rows of hidden() and residual() that no pass writes, after max_rows
  int64_t max_seq_len = 0;
  DType cache_dtype = DType::kBF16;
  DType activation_dtype = DType::kF32;  // of the inputs of linear layers: F32 or BF16
};

/// Views of a sequence's memory by layer index: `kv` of full-attention layers, `recurrent` of linear-attention layers; others are
/// empty.
struct TargetCaches {
  std::vector<PagedKvView> kv;
  std::vector<RecurrentStateView> recurrent;
};

/// One pass over T rows.
struct TargetPass {
  Tensor input_ids;  // [T] I32
  StepView view;
  StateUpdate update = StateUpdate::kInPlace;
  LinearPrecision precision = LinearPrecision::kExact;
};

/// Weights are views that must outlive it; owns its activations. `forward` is const and allocates nothing, but its activations
/// are those of the last pass: one pass at a time.
class TargetModel {
 public:
  /// Throws Unsupported when the backend lacks an operator, before anything is allocated; OutOfMemory.
  TargetModel(GpuBackend& backend, const ModelConfig& config, TargetWeights weights, const TargetModelOptions& options);

  [[nodiscard]] const ModelConfig& config() const { return config_; }
  [[nodiscard]] int64_t max_rows() const { return options_.max_rows; }
  [[nodiscard]] const TargetModelOptions& options() const { return options_; }

  /// Runs all layers; leaves hidden() and residual() of the rows. At kExact, row-invariant.
  void forward(CommandList& cmd, const TargetPass& pass, const TargetCaches& caches) const;

  /// Hidden states after the final norm, [max_rows + num_parked_rows, hidden_size] of the activation dtype: what the LM head
  /// sees.
  [[nodiscard]] const Tensor& hidden() const { return hidden_; }
  /// Hidden states before the final norm, [max_rows + num_parked_rows, hidden_size] F32.
  [[nodiscard]] const Tensor& residual() const { return residual_; }

  /// hidden [T, hidden_size] -> logits [T, vocab_size] F32.
  void logits(CommandList& cmd, const Tensor& hidden, const Tensor& logits) const {
    ops::linear(cmd, hidden, weights_.lm_head, logits);
  }
  /// Whether `pick` can be called; otherwise the device has no fused LM head for this weight, and `logits` and Argmax remain.
  [[nodiscard]] const Availability& fused_pick() const { return fused_pick_; }
  /// hidden [T, hidden_size] -> token_ids [T] I32, the greedy picks, without writing logits. T at most kMaxPickRows.
  void pick(CommandList& cmd, const Tensor& hidden, const Tensor& token_ids) const;

  static constexpr int64_t kMaxPickRows = 16;

 private:
  void allocate(GpuBackend& backend);

  ModelConfig config_;
  LayerDims dims_;
  TargetModelOptions options_;
  TargetWeights weights_;
  Availability fused_pick_;
  LayerScratch scratch_;
  std::vector<DecoderLayer> layers_;
  Buffer activations_;
  Buffer workspaces_;
  Tensor residual_;
  Tensor hidden_;
  Tensor cos_sin_;           // [max_rows, rotary_dim]
  Tensor linear_workspace_;  // bytes, kBF16 passes
  Tensor pick_workspace_;    // bytes
};

}  // namespace foretoken
