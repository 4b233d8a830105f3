// causal_conv1d_silu, gated_delta_rule.
#include <algorithm>
#include <string>

#include "backends/gpu/delta_net_params.h"
#include "backends/gpu/gpu_ops.h"
#include "backends/gpu/ops/operands.h"
#include "core/ops/gated_delta_rule.h"

namespace foretoken::gpu {
namespace {

CausalConv1dSiluParams conv_params(const CausalConv1dSilu& op) {
  return {.x = op.x.address(),
          .weight = op.weight.address(),
          .query_start_loc = op.query_start_loc.address(),
          .state_slots = op.state_slots.address(),
          .num_commit = op.num_commit.address(),
          .conv_state = op.conv_state.address(),
          .conv_record = op.conv_record.address(),
          .out = op.out.address(),
          .x_stride = stride(op.x),
          .out_stride = stride(op.out),
          .num_channels = extent(op.x, 1),
          .num_slots = extent(op.conv_state, 0),
          .record_rows = op.conv_record.is_absent() ? 0 : extent(op.conv_record, 1),
          .records = op.update == StateUpdate::kRecord,
          .x_is_bf16 = is_bf16(op.x),
          .out_is_bf16 = is_bf16(op.out)};
}

/// Whether heads are as the kernels of whole heads need them: of the largest size, F32, aligned.
Availability has_whole_heads(const GatedDeltaRule& op) {
  if (op.state.dim(2) != kMaxStateDim || op.state.dim(3) != kMaxStateDim) {
    return Availability::no("key and value heads of " + std::to_string(kMaxStateDim) + " elements");
  }
  if (is_bf16(op.qkv) || is_bf16(op.z)) return Availability::no("qkv and z in F32");
  const Tensor* tensors[] = {&op.qkv, &op.z, &op.state, &op.key_record, &op.delta_record};
  const bool aligned = std::ranges::all_of(tensors, [](const Tensor* tensor) {
    return tensor->address() % (kStateQuad * sizeof(float)) == 0 && stride(*tensor) % kStateQuad == 0;
  });
  return aligned ? Availability::yes() : Availability::no("heads at multiples of 16 bytes");
}

GatedDeltaRuleParams delta_rule_params(const GatedDeltaRule& op) {
  return {.qkv = op.qkv.address(),
          .b = op.b.address(),
          .a = op.a.address(),
          .A_log = op.A_log.address(),
          .dt_bias = op.dt_bias.address(),
          .query_start_loc = op.query_start_loc.address(),
          .state_slots = op.state_slots.address(),
          .num_commit = op.num_commit.address(),
          .state = op.state.address(),
          .key_record = op.key_record.address(),
          .delta_record = op.delta_record.address(),
          .decay_record = op.decay_record.address(),
          .z = op.z.address(),
          .norm = op.norm.address(),
          .out = op.out.address(),
          .qkv_stride = stride(op.qkv),
          .b_stride = stride(op.b),
          .a_stride = stride(op.a),
          .z_stride = stride(op.z),
          .out_stride = stride(op.out),
          .num_key_heads = static_cast<uint32_t>(op.num_key_heads()),
          .num_value_heads = extent(op.state, 1),
          .key_dim = extent(op.state, 2),
          .value_dim = extent(op.state, 3),
          .num_slots = extent(op.state, 0),
          .record_rows = op.key_record.is_absent() ? 0 : extent(op.key_record, 1),
          .records = op.update == StateUpdate::kRecord,
          .eps = op.eps,
          .qkv_is_bf16 = is_bf16(op.qkv),
          .b_is_bf16 = is_bf16(op.b),
          .a_is_bf16 = is_bf16(op.a),
          .z_is_bf16 = is_bf16(op.z),
          .out_is_bf16 = is_bf16(op.out),
          .reserved = 0};
}

Availability fits(const GatedDeltaRule& op) {
  const Availability keys = dim_at_most(op.state, 2, kMaxStateDim, "key heads");
  return keys ? dim_at_most(op.state, 3, kMaxStateDim, "value heads") : keys;
}

}  // namespace

void add_whole_head_rule(OpTable& table, const KernelModule& module, std::string name, std::string_view kernel_name,
                         uint32_t groups_per_head) {
  const auto kernel = module.resolve_optional<GatedDeltaRuleParams>(kernel_name);
  table.add<GatedDeltaRule>(
      std::move(name),
      [kernel, groups_per_head](CommandList& cmd, const GatedDeltaRule& op) {
        kernel(cmd, Grid{groups_per_head, extent(op.state, 1), extent(op.state_slots, 0)}, delta_rule_params(op),
               accesses_of(op));
      },
      [kernel](const GatedDeltaRule& op) { return kernel ? has_whole_heads(op) : Availability::no(kernel.absent_reason()); });
}

void add_delta_net_ops(OpTable& table, const KernelModule& module) {
  table.add<CausalConv1dSilu>(
      "gpu",
      [kernel = module.resolve<CausalConv1dSiluParams>("causal_conv1d_silu")](CommandList& cmd, const CausalConv1dSilu& op) {
        const uint32_t row_tiles = op.update == StateUpdate::kRecord ? 1 : ceil_div(extent(op.x, 0), kConvRows);
        kernel(cmd, Grid{ceil_div(extent(op.x, 1), kConvChannels), extent(op.state_slots, 0), row_tiles}, conv_params(op),
               accesses_of(op));
      },
      [](const CausalConv1dSilu& op) {
        if (op.update == StateUpdate::kInPlace) return Availability::yes();
        return dim_at_most(op.conv_record, 1, kConvRows, "records");
      });
  add_whole_head_rule(table, module, "whole", "gated_delta_rule_whole", 1);
  table.add<GatedDeltaRule>(
      "any",
      [kernel = module.resolve<GatedDeltaRuleParams>("gated_delta_rule_any")](CommandList& cmd, const GatedDeltaRule& op) {
        kernel(cmd, Grid{1, extent(op.state, 1), extent(op.state_slots, 0)}, delta_rule_params(op), accesses_of(op));
      },
      fits);
}

}  // namespace foretoken::gpu
