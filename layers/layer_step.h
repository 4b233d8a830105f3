// What one pass through a stack of layers is given besides its activations.
#pragma once

#include <array>

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
  /// y_i = x W_i^T of up to four projections of the same rows, in one launch where the device has it.
  void linears(CommandList& cmd, const Tensor& x, const std::array<LinearWeight, LinearGroup::kMaxProjections>& w,
               const std::array<Tensor, LinearGroup::kMaxProjections>& out) const {
    ops::dispatch(cmd, LinearGroup{.x = x, .w = w, .out = out, .workspace = linear_workspace(), .precision = precision});
  }
  [[nodiscard]] Tensor linear_workspace() const { return precision == LinearPrecision::kExact ? Tensor() : workspace; }
};

}  // namespace foretoken
