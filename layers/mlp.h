// Gated feed-forward: down_proj(silu(gate_proj x) * up_proj x).
#pragma once

#include "layers/layer_step.h"
#include "layers/weights.h"

namespace foretoken {

/// Weights and `act` [max_rows, intermediate_size] are views that must outlive it.
class Mlp {
 public:
  Mlp(const MlpWeights& weights, const Tensor& act) : w_(weights), act_(act) {}

  /// x [T, hidden_size], normed -> out [T, hidden_size].
  void forward(CommandList& cmd, const Tensor& x, const LayerStep& step, const Tensor& out) const;

 private:
  MlpWeights w_;
  Tensor act_;
};

}  // namespace foretoken
