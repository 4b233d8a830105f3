// causal_conv1d_silu, gated_delta_rule.
#include <algorithm>

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

/// Whether whatever the kernel reads and writes in fours is aligned for it.
bool has_whole_quads(const GatedDeltaRule& op) {
  constexpr int64_t kQuad = 4;
  if (op.state.dim(2) % kQuad != 0 || op.state.dim(3) % kQuad != 0) return false;
  const Tensor* tensors[] = {&op.qkv, &op.z, &op.state, &op.key_record, &op.delta_record};
  return std::ranges::all_of(tensors, [](const Tensor* tensor) {
    if (tensor->is_absent()) return true;
    const size_t quad_bytes = dtype_bytes(tensor->dtype(), kQuad);
    return tensor->address() % quad_bytes == 0 && tensor->row_stride() % kQuad == 0;
  });
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
          .quads = has_whole_quads(op),
          .eps = op.eps,
          .qkv_is_bf16 = is_bf16(op.qkv),
          .b_is_bf16 = is_bf16(op.b),
          .a_is_bf16 = is_bf16(op.a),
          .z_is_bf16 = is_bf16(op.z),
          .out_is_bf16 = is_bf16(op.out)};
}

}  // namespace

void add_delta_rule(OpTable& table, const KernelModule& module, std::string name, std::string_view kernel_name,
                    uint32_t groups_per_head) {
  const auto kernel = module.resolve_optional<GatedDeltaRuleParams>(kernel_name);
  table.add<GatedDeltaRule>(
      std::move(name),
      [kernel, groups_per_head](CommandList& cmd, const GatedDeltaRule& op) {
        kernel(cmd, Grid{groups_per_head, extent(op.state, 1), extent(op.state_slots, 0)}, delta_rule_params(op),
               accesses_of(op));
      },
      [kernel](const GatedDeltaRule& op) {
        if (!kernel) return Availability::no(kernel.absent_reason());
        const Availability keys = dim_at_most(op.state, 2, kMaxStateDim, "key heads");
        return keys ? dim_at_most(op.state, 3, kMaxStateDim, "value heads") : keys;
      });
}

void add_delta_net_ops(OpTable& table, const KernelModule& module) {
  table.add<CausalConv1dSilu>("gpu", [kernel = module.resolve<CausalConv1dSiluParams>("causal_conv1d_silu")](
                                         CommandList& cmd, const CausalConv1dSilu& op) {
    const uint32_t row_tiles = op.update == StateUpdate::kRecord ? 1 : ceil_div(extent(op.x, 0), kConvRows);
    kernel(cmd, Grid{ceil_div(extent(op.x, 1), kConvThreads), extent(op.state_slots, 0), row_tiles}, conv_params(op),
           accesses_of(op));
  });
  add_delta_rule(table, module, "gpu", "gated_delta_rule", 1);
}

}  // namespace foretoken::gpu
