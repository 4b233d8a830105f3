// What one pass through a stack of layers is given besides its activations.
#pragma once

#include "backends/ops.h"
#include "core/kv_view.h"

namespace foretoken {

/// Fixed for all layers of a pass. Tensors belong to the caller.
struct LayerStep {
  StepView view;
  Tensor cos_sin;                                       // [T, rotary_dim] F32, see RopeTable
  StateUpdate update = StateUpdate::kInPlace;           // kRecord in a verify step
  LinearPrecision precision = LinearPrecision::kExact;  // kBF16 in prefill only
  Tensor workspace;                                     // of linear layers at kBF16; may be absent at kExact

  /// y = x W^T at the precision of this pass. The exact kernels get no workspace, so independent projections stay independent.
  void linear(CommandList& cmd, const Tensor& x, const LinearWeight& w, const Tensor& out) const {
    ops::linear(cmd, x, w, out, linear_workspace(), precision);
  }
  [[nodiscard]] Tensor linear_workspace() const { return precision == LinearPrecision::kExact ? Tensor() : workspace; }
};

}  // namespace foretoken
