#include "layers/mlp.h"

namespace foretoken {

void Mlp::forward(CommandList& cmd, const Tensor& x, const LayerStep& step, const Tensor& out) const {
  const Tensor act = act_.rows(0, x.dim(0));
  ops::dispatch(cmd, LinearSiluMul{.x = x,
                                   .gate = w_.gate_proj,
                                   .up = w_.up_proj,
                                   .out = act,
                                   .workspace = step.linear_workspace(),
                                   .precision = step.precision});
  step.linear(cmd, act, w_.down_proj, out);
}

}  // namespace foretoken
