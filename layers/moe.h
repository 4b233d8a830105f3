// Mixture of experts with a shared expert: see core/ops/moe_block.h.
#pragma once

#include "layers/layer_step.h"
#include "layers/scratch.h"
#include "layers/weights.h"

namespace foretoken {

/// Weights and scratch are views that must outlive it. The router is exact at every precision, the experts follow the step.
class Moe {
 public:
  Moe(const LayerDims& dims, const MoeWeights& weights, const LayerScratch& scratch) : dims_(dims), w_(weights), s_(scratch) {}

  /// x [T, hidden_size], normed -> out [T, hidden_size].
  void forward(CommandList& cmd, const Tensor& x, const LayerStep& step, const Tensor& out) const;

 private:
  LayerDims dims_;
  MoeWeights w_;
  const LayerScratch& s_;
};

}  // namespace foretoken
