#include "layers/gated_delta_net.h"

namespace foretoken {

void GatedDeltaNetLayer::forward(CommandList& cmd, const Tensor& x, const LayerStep& step,
                                 const RecurrentStateView& state) const {
  const int64_t rows = x.dim(0);
  const Shape heads{rows, dims_.linear_num_value_heads, dims_.linear_value_head_dim};
  const Tensor qkv = s_.qkv.rows(0, rows);
  const Tensor conv = s_.conv.rows(0, rows);
  const Tensor z = s_.z.rows(0, rows);
  const Tensor b = s_.b.rows(0, rows);
  const Tensor a = s_.a.rows(0, rows);
  const Tensor delta = s_.delta.rows(0, rows);

  step.linears(cmd, x, {w_.in_proj_qkv, w_.in_proj_z, w_.in_proj_b, w_.in_proj_a}, {qkv, z, b, a});
  ops::dispatch(cmd, CausalConv1dSilu{.x = qkv,
                                      .weight = w_.conv1d,
                                      .query_start_loc = step.view.query_start_loc,
                                      .state_slots = step.view.state_slots,
                                      .num_commit = step.view.num_commit,
                                      .conv_state = state.conv_state,
                                      .conv_record = state.conv_record,
                                      .out = conv,
                                      .update = step.update});
  ops::dispatch(cmd, GatedDeltaRule{.qkv = conv,
                                    .b = b,
                                    .a = a,
                                    .A_log = w_.A_log,
                                    .dt_bias = w_.dt_bias,
                                    .query_start_loc = step.view.query_start_loc,
                                    .state_slots = step.view.state_slots,
                                    .num_commit = step.view.num_commit,
                                    .state = state.state,
                                    .key_record = state.key_record,
                                    .delta_record = state.delta_record,
                                    .decay_record = state.decay_record,
                                    .z = z.reshape(heads),
                                    .norm = w_.norm,
                                    .out = delta.reshape(heads),
                                    .workspace = step.linear_workspace(),
                                    .eps = dims_.rms_norm_eps,
                                    .update = step.update,
                                    .precision = step.precision});
  step.linear(cmd, delta, w_.out_proj, s_.mixed.rows(0, rows));
}

}  // namespace foretoken
