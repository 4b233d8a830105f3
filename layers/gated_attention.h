// Gated attention over a paged cache: o_proj(attention(rope(norm q), rope(norm k), v) * sigmoid(gate)).
#pragma once

#include "layers/layer_step.h"
#include "layers/scratch.h"
#include "layers/weights.h"

namespace foretoken {

/// Weights and scratch are views that must outlive it. `forward` is const and allocates nothing.
class GatedAttentionLayer {
 public:
  GatedAttentionLayer(const LayerDims& dims, const GatedAttentionWeights& weights, const LayerScratch& scratch)
      : dims_(dims), w_(weights), s_(scratch) {}

  /// x [T, hidden_size], normed -> scratch.mixed [T, hidden_size]. Rows of x go to their slots of `kv` first.
  void forward(CommandList& cmd, const Tensor& x, const LayerStep& step, const PagedKvView& kv) const;

  /// Only the cache rows of x: what a row needs that is never attended from.
  void write_cache(CommandList& cmd, const Tensor& x, const LayerStep& step, const PagedKvView& kv) const;

 private:
  LayerDims dims_;
  GatedAttentionWeights w_;
  const LayerScratch& s_;
};

}  // namespace foretoken
