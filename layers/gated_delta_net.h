// Gated delta net: out_proj(norm_gated(delta_rule(silu(conv(in_proj_qkv x)), in_proj_b x, in_proj_a x), in_proj_z x)).
#pragma once

#include "layers/layer_step.h"
#include "layers/scratch.h"
#include "layers/weights.h"

namespace foretoken {

/// Weights and scratch are views that must outlive it. `forward` is const and allocates nothing.
class GatedDeltaNetLayer {
 public:
  GatedDeltaNetLayer(const LayerDims& dims, const GatedDeltaNetWeights& weights, const LayerScratch& scratch)
      : dims_(dims), w_(weights), s_(scratch) {}

  /// x [T, hidden_size], normed -> scratch.mixed [T, hidden_size]. Adds the rows that the step before recorded and
  /// `step.view.num_commit` accepts to the states, then runs the rows of this step and, by `step.update`, advances the states or
  /// records the rows.
  void forward(CommandList& cmd, const Tensor& x, const LayerStep& step, const RecurrentStateView& state) const;

 private:
  LayerDims dims_;
  GatedDeltaNetWeights w_;
  const LayerScratch& s_;
};

}  // namespace foretoken
