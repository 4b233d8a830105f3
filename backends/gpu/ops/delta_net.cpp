// causal_conv1d_silu, gated_delta_rule, recurrent_commit.
#include "backends/gpu/delta_net_params.h"

#include "backends/gpu/gpu_ops.h"
#include "backends/gpu/ops/operands.h"
#include "core/ops/gated_delta_rule.h"

namespace foretoken::gpu {
namespace {

CausalConv1dSiluParams conv_params(const CausalConv1dSilu& op) {
  const bool recording = op.update == StateUpdate::kRecord;
  return {.x = op.x.address(),
          .weight = op.weight.address(),
          .query_start_loc = op.query_start_loc.address(),
          .state_slots = op.state_slots.address(),
          .conv_state = op.conv_state.address(),
          .conv_record = recording ? op.conv_record.address() : 0,
          .out = op.out.address(),
          .x_stride = stride(op.x),
          .out_stride = stride(op.out),
          .num_channels = extent(op.x, 1),
          .num_slots = extent(op.conv_state, 0),
          .record_rows = recording ? extent(op.conv_record, 1) : 0,
          .x_is_bf16 = is_bf16(op.x),
          .out_is_bf16 = is_bf16(op.out),
          .reserved = 0};
}

GatedDeltaRuleParams delta_rule_params(const GatedDeltaRule& op) {
  const bool recording = op.update == StateUpdate::kRecord;
  return {.qkv = op.qkv.address(),
          .b = op.b.address(),
          .a = op.a.address(),
          .A_log = op.A_log.address(),
          .dt_bias = op.dt_bias.address(),
          .query_start_loc = op.query_start_loc.address(),
          .state_slots = op.state_slots.address(),
          .state = op.state.address(),
          .key_record = recording ? op.key_record.address() : 0,
          .delta_record = recording ? op.delta_record.address() : 0,
          .decay_record = recording ? op.decay_record.address() : 0,
          .out = op.out.address(),
          .qkv_stride = stride(op.qkv),
          .b_stride = stride(op.b),
          .a_stride = stride(op.a),
          .out_stride = stride(op.out),
          .num_key_heads = static_cast<uint32_t>(op.num_key_heads()),
          .num_value_heads = extent(op.state, 1),
          .key_dim = extent(op.state, 2),
          .value_dim = extent(op.state, 3),
          .num_slots = extent(op.state, 0),
          .record_rows = recording ? extent(op.key_record, 1) : 0,
          .qkv_is_bf16 = is_bf16(op.qkv),
          .b_is_bf16 = is_bf16(op.b),
          .a_is_bf16 = is_bf16(op.a),
          .out_is_bf16 = is_bf16(op.out)};
}

RecurrentCommitParams commit_params(const RecurrentCommit& op) {
  return {.num_commit = op.num_commit.address(),
          .state_slots = op.state_slots.address(),
          .conv_record = op.conv_record.address(),
          .key_record = op.key_record.address(),
          .delta_record = op.delta_record.address(),
          .decay_record = op.decay_record.address(),
          .conv_state = op.conv_state.address(),
          .state = op.state.address(),
          .num_channels = extent(op.conv_state, 1),
          .num_key_heads = extent(op.key_record, 2),
          .num_value_heads = extent(op.state, 1),
          .key_dim = extent(op.state, 2),
          .value_dim = extent(op.state, 3),
          .num_slots = extent(op.state, 0),
          .record_rows = extent(op.key_record, 1),
          .reserved = 0};
}

}  // namespace

void add_delta_net_ops(OpTable& table, const KernelModule& module) {
  table.add<CausalConv1dSilu>("gpu", [kernel = module.resolve<CausalConv1dSiluParams>("causal_conv1d_silu")](
                                         CommandList& cmd, const CausalConv1dSilu& op) {
    kernel(cmd, Grid{ceil_div(extent(op.x, 1), kConvThreads), extent(op.state_slots, 0)}, conv_params(op), accesses_of(op));
  });

  table.add<GatedDeltaRule>(
      "gpu",
      [small = module.resolve<GatedDeltaRuleParams>("gated_delta_rule_dk128"),
       large = module.resolve<GatedDeltaRuleParams>("gated_delta_rule_dk256")](CommandList& cmd, const GatedDeltaRule& op) {
        const Grid grid{ceil_div(extent(op.state, 3), kStateColumns), extent(op.state, 1), extent(op.state_slots, 0)};
        (op.state.dim(2) <= 128 ? small : large)(cmd, grid, delta_rule_params(op), accesses_of(op));
      },
      [](const GatedDeltaRule& op) { return dim_at_most(op.state, 2, kMaxKeyDim, "key heads"); });

  table.add<RecurrentCommit>(
      "gpu", [kernel = module.resolve<RecurrentCommitParams>("recurrent_commit")](CommandList& cmd, const RecurrentCommit& op) {
        const uint32_t state_groups = extent(op.state, 1) * ceil_div(extent(op.state, 3), kStateColumns);
        const uint32_t conv_groups = ceil_div(extent(op.conv_state, 1), kStateThreads);
        kernel(cmd, Grid{state_groups + conv_groups, extent(op.num_commit, 0)}, commit_params(op), accesses_of(op));
      });
}

}  // namespace foretoken::gpu
