// causal_conv1d_silu, gated_delta_rule, recurrent_commit.
#include <string>

#include "backends/cpu/cpu_ops.h"
#include "backends/cpu/kernels/delta_net_params.h"
#include "backends/cpu/ops/operands.h"
#include "core/fault.h"
#include "core/ops/gated_delta_rule.h"

namespace foretoken::cpu {
namespace {

CausalConv1dSiluParams conv_params(const CausalConv1dSilu& op) {
  const bool recording = op.update == StateUpdate::kRecord;
  return {.x = pointer<const float>(op.x),
          .weight = pointer<const float>(op.weight),
          .query_start_loc = pointer<const int32_t>(op.query_start_loc),
          .state_slots = pointer<const int32_t>(op.state_slots),
          .conv_state = pointer<float>(op.conv_state),
          .conv_record = recording ? pointer<float>(op.conv_record) : nullptr,
          .out = pointer<float>(op.out),
          .x_stride = stride(op.x),
          .out_stride = stride(op.out),
          .num_channels = dimension(op.x, 1),
          .num_slots = dimension(op.conv_state, 0),
          .record_rows = recording ? dimension(op.conv_record, 1) : 0};
}

/// Many rows share what a head prepares for them among all slices; few rows are spread over more items instead.
size_t slices_per_item(const GatedDeltaRule& op) {
  constexpr size_t kFewRows = 16;
  const bool shares = op.update == StateUpdate::kInPlace && dimension(op.qkv, 0) > kFewRows;
  return shares ? ceil_div(dimension(op.state, 3), kStateSlice) : 1;
}

GatedDeltaRuleParams delta_rule_params(const GatedDeltaRule& op) {
  const bool recording = op.update == StateUpdate::kRecord;
  return {.qkv = pointer<const float>(op.qkv),
          .b = pointer<const float>(op.b),
          .a = pointer<const float>(op.a),
          .A_log = pointer<const float>(op.A_log),
          .dt_bias = pointer<const float>(op.dt_bias),
          .query_start_loc = pointer<const int32_t>(op.query_start_loc),
          .state_slots = pointer<const int32_t>(op.state_slots),
          .state = pointer<float>(op.state),
          .key_record = recording ? pointer<float>(op.key_record) : nullptr,
          .delta_record = recording ? pointer<float>(op.delta_record) : nullptr,
          .decay_record = recording ? pointer<float>(op.decay_record) : nullptr,
          .out = pointer<float>(op.out),
          .qkv_stride = stride(op.qkv),
          .b_stride = stride(op.b),
          .a_stride = stride(op.a),
          .out_stride = stride(op.out),
          .num_key_heads = static_cast<size_t>(op.num_key_heads()),
          .num_value_heads = dimension(op.state, 1),
          .key_dim = dimension(op.state, 2),
          .value_dim = dimension(op.state, 3),
          .num_slots = dimension(op.state, 0),
          .record_rows = recording ? dimension(op.key_record, 1) : 0,
          .slices_per_item = slices_per_item(op)};
}

RecurrentCommitParams commit_params(const RecurrentCommit& op) {
  return {.num_commit = pointer<const int32_t>(op.num_commit),
          .state_slots = pointer<const int32_t>(op.state_slots),
          .conv_record = pointer<const float>(op.conv_record),
          .key_record = pointer<const float>(op.key_record),
          .delta_record = pointer<const float>(op.delta_record),
          .decay_record = pointer<const float>(op.decay_record),
          .conv_state = pointer<float>(op.conv_state),
          .state = pointer<float>(op.state),
          .num_channels = dimension(op.conv_state, 1),
          .num_key_heads = dimension(op.key_record, 2),
          .num_value_heads = dimension(op.state, 1),
          .key_dim = dimension(op.state, 2),
          .value_dim = dimension(op.state, 3),
          .num_slots = dimension(op.state, 0),
          .record_rows = dimension(op.key_record, 1)};
}

Availability accepts_delta_rule(const GatedDeltaRule& op) {
  if (dimension(op.state, 2) > kMaxKeyDim) {
    return Availability::no("key heads of at most " + std::to_string(kMaxKeyDim) + " elements");
  }
  return activations_are_f32({&op.qkv, &op.b, &op.a, &op.out});
}

Availability accepts_amx_delta_rule(const Kernel<GatedDeltaRuleParams>& kernel, const GatedDeltaRule& op) {
  if (op.precision != LinearPrecision::kBF16) return Availability::no("the call asks for exact activations");
  if (!kernel) return Availability::no("this CPU has no AMX-BF16 tiles, or a lower set is forced");
  if (op.update != StateUpdate::kInPlace) return Availability::no("records nothing");
  const size_t key_dim = dimension(op.state, 2);
  const size_t value_dim = dimension(op.state, 3);
  if (key_dim > kAmxDeltaDim || key_dim % kAmxDeltaKeyMultiple != 0 || value_dim > kAmxDeltaDim ||
      value_dim % kAmxDeltaValueMultiple != 0) {
    return Availability::no("key heads in multiples of 32 and value heads in multiples of 64, both up to 128");
  }
  return activations_are_f32({&op.qkv, &op.b, &op.a, &op.out});
}

}  // namespace

void add_delta_net_ops(OpTable& table, const KernelModule& module) {
  table.add<CausalConv1dSilu>(
      "cpu",
      [kernel = module.resolve<CausalConv1dSiluParams>("causal_conv1d_silu")](CommandList& cmd, const CausalConv1dSilu& op) {
        const size_t tiles = ceil_div(dimension(op.x, 1), kConvTile);
        kernel(cmd, items(dimension(op.state_slots, 0) * tiles), conv_params(op), accesses_of(op));
      },
      [](const CausalConv1dSilu& op) {
        return activations_are_f32({&op.x, &op.out});
      });

  const auto amx = module.resolve_optional<GatedDeltaRuleParams>("amx_gated_delta_rule");
  table.add<GatedDeltaRule>(
      "amx",
      [amx](CommandList& cmd, const GatedDeltaRule& op) {
        amx(cmd, items(dimension(op.state_slots, 0) * dimension(op.state, 1)), delta_rule_params(op), accesses_of(op));
      },
      [amx](const GatedDeltaRule& op) { return accepts_amx_delta_rule(amx, op); });
  table.add<GatedDeltaRule>(
      "cpu",
      [kernel = module.resolve<GatedDeltaRuleParams>("gated_delta_rule")](CommandList& cmd, const GatedDeltaRule& op) {
        const size_t items_per_head = ceil_div(ceil_div(dimension(op.state, 3), kStateSlice), slices_per_item(op));
        kernel(cmd, items(dimension(op.state_slots, 0) * dimension(op.state, 1) * items_per_head), delta_rule_params(op),
               accesses_of(op));
      },
      accepts_delta_rule);

  table.add<RecurrentCommit>(
      "cpu", [kernel = module.resolve<RecurrentCommitParams>("recurrent_commit")](CommandList& cmd, const RecurrentCommit& op) {
        if (fault::active(Fault::kStateNotCommitted)) return;
        const size_t state_items = dimension(op.state, 1) * ceil_div(dimension(op.state, 3), kStateSlice);
        const size_t conv_items = ceil_div(dimension(op.conv_state, 1), kConvTile);
        kernel(cmd, items(dimension(op.num_commit, 0) * (state_items + conv_items)), commit_params(op), accesses_of(op));
      });
}

}  // namespace foretoken::cpu
