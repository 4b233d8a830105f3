// causal_conv1d_silu, gated_delta_rule.
#include <string>

#include "backends/cpu/cpu_ops.h"
#include "backends/cpu/kernels/delta_net_params.h"
#include "backends/cpu/ops/operands.h"
#include "core/ops/gated_delta_rule.h"

namespace foretoken::cpu {
namespace {

CausalConv1dSiluParams conv_params(const CausalConv1dSilu& op) {
  return {.x = pointer<const float>(op.x),
          .weight = pointer<const float>(op.weight),
          .query_start_loc = pointer<const int32_t>(op.query_start_loc),
          .state_slots = pointer<const int32_t>(op.state_slots),
          .num_commit = pointer<const int32_t>(op.num_commit),
          .conv_state = pointer<float>(op.conv_state),
          .conv_record = pointer<float>(op.conv_record),
          .out = pointer<float>(op.out),
          .x_stride = stride(op.x),
          .out_stride = stride(op.out),
          .num_channels = dimension(op.x, 1),
          .num_slots = dimension(op.conv_state, 0),
          .record_rows = op.conv_record.is_absent() ? 0 : dimension(op.conv_record, 1),
          .records = op.update == StateUpdate::kRecord};
}

GatedDeltaRuleParams delta_rule_params(const GatedDeltaRule& op) {
  return {.qkv = pointer<const float>(op.qkv),
          .b = pointer<const float>(op.b),
          .a = pointer<const float>(op.a),
          .A_log = pointer<const float>(op.A_log),
          .dt_bias = pointer<const float>(op.dt_bias),
          .query_start_loc = pointer<const int32_t>(op.query_start_loc),
          .state_slots = pointer<const int32_t>(op.state_slots),
          .num_commit = pointer<const int32_t>(op.num_commit),
          .state = pointer<float>(op.state),
          .key_record = pointer<float>(op.key_record),
          .delta_record = pointer<float>(op.delta_record),
          .decay_record = pointer<float>(op.decay_record),
          .z = pointer<const float>(op.z),
          .norm = pointer<const float>(op.norm),
          .out = pointer<float>(op.out),
          .qkv_stride = stride(op.qkv),
          .b_stride = stride(op.b),
          .a_stride = stride(op.a),
          .z_stride = op.z.is_absent() ? 0 : stride(op.z),
          .out_stride = stride(op.out),
          .num_key_heads = static_cast<size_t>(op.num_key_heads()),
          .num_value_heads = dimension(op.state, 1),
          .key_dim = dimension(op.state, 2),
          .value_dim = dimension(op.state, 3),
          .num_slots = dimension(op.state, 0),
          .record_rows = op.key_record.is_absent() ? 0 : dimension(op.key_record, 1),
          .eps = op.eps,
          .records = op.update == StateUpdate::kRecord};
}

Availability accepts_delta_rule(const GatedDeltaRule& op) {
  if (dimension(op.state, 2) > kMaxKeyDim) {
    return Availability::no("key heads of at most " + std::to_string(kMaxKeyDim) + " elements");
  }
  if (!op.key_record.is_absent() && dimension(op.key_record, 1) > kMaxRecordRows) {
    return Availability::no("records of at most " + std::to_string(kMaxRecordRows) + " rows");
  }
  return activations_are_f32({&op.qkv, &op.b, &op.a, &op.z, &op.out});
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
  return activations_are_f32({&op.qkv, &op.b, &op.a, &op.z, &op.out});
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
        kernel(cmd, items(dimension(op.state_slots, 0) * dimension(op.state, 1)), delta_rule_params(op), accesses_of(op));
      },
      accepts_delta_rule);
}

}  // namespace foretoken::cpu
