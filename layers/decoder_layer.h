// One decoder layer: x += mix(rms(x; input_layernorm)); x += ffn(rms(x; post_attention_layernorm)).
// The additions are fused with the norms that follow them, so a layer leaves its feed-forward's output unadded in scratch.ffn,
// and the next norm (of the next layer, or the final one) adds it.
#pragma once

#include <optional>

#include "layers/gated_attention.h"
#include "layers/gated_delta_net.h"
#include "layers/mlp.h"
#include "layers/moe.h"

namespace foretoken {

/// Whether the residual stream lacks the feed-forward output of the layer before.
enum class PendingFfn : bool { kNo, kYes };

/// Weights and scratch are views that must outlive it. `forward` is const and allocates nothing.
class DecoderLayer {
 public:
  DecoderLayer(const LayerDims& dims, const DecoderLayerWeights& weights, const LayerScratch& scratch);

  [[nodiscard]] bool is_full_attention() const { return attention_.has_value(); }

  /// residual [T, hidden_size] is updated up to the attention's output; the feed-forward's output is left in scratch.ffn.
  /// Full attention takes `kv`, linear attention takes `state`; the other is ignored.
  void forward(CommandList& cmd, const Tensor& residual, PendingFfn pending, const LayerStep& step, const PagedKvView& kv,
               const RecurrentStateView& state) const;

  /// Cache rows only, for rows of a full-attention layer that are never attended from. residual [T, hidden_size] is only read.
  void write_cache(CommandList& cmd, const Tensor& residual, const LayerStep& step, const PagedKvView& kv) const;

 private:
  LayerDims dims_;
  Tensor input_layernorm_;
  Tensor post_attention_layernorm_;
  const LayerScratch& s_;
  std::optional<GatedAttentionLayer> attention_;
  std::optional<GatedDeltaNetLayer> delta_net_;
  std::optional<Mlp> mlp_;
  std::optional<Moe> moe_;
};

}  // namespace foretoken
