// Mixture of experts with a shared expert: see core/ops/moe.h.
#pragma once

#include "layers/mlp.h"
#include "layers/scratch.h"

namespace foretoken {

/// Weights and scratch are views that must outlive it. The router is exact at every precision, the experts follow the step.
class Moe {
 public:
  Moe(const LayerDims& dims, const MoeWeights& weights, const LayerScratch& scratch)
      : dims_(dims), w_(weights), s_(scratch), shared_expert_(weights.shared_expert, scratch.shared_act) {}

  /// x [T, hidden_size], normed -> out [T, hidden_size].
  void forward(CommandList& cmd, const Tensor& x, const LayerStep& step, const Tensor& out) const;

 private:
  LayerDims dims_;
  MoeWeights w_;
  const LayerScratch& s_;
  Mlp shared_expert_;
};

}  // namespace foretoken
