// The implementations of the mixture-of-experts operators.
#include "core/ops/moe.h"

#include "backends/cpu/cpu_ops.h"
#include "backends/cpu/kernels/moe_params.h"
#include "backends/cpu/ops/linear_support.h"

namespace foretoken::cpu {
namespace {

void add_moe_route(OpTable& table, const KernelModule& module) {
  const auto topk = module.resolve<MoeTopkParams>("moe_topk");
  const auto group = module.resolve<MoeGroupParams>("moe_group");
  table.add<MoeRoute>(
      "exact",
      [topk, group](CommandList& cmd, const MoeRoute& op) {
        const uint32_t rows = extent(op.logits, 0);
        const uint32_t num_experts = extent(op.logits, 1);
        const uint32_t top_k = extent(op.topk_ids, 1);
        const std::vector<Access> accesses = accesses_of(op);
        const MoeTopkParams topk_params{.logits = op.logits.address(),
                                        .topk_ids = op.topk_ids.address(),
                                        .topk_weights = op.topk_weights.address(),
                                        .logits_stride = stride(op.logits),
                                        .num_experts = num_experts,
                                        .top_k = top_k,
                                        .renormalise = op.norm_topk_prob ? 1U : 0U,
                                        .reserved = 0};
        topk(cmd, Grid{rows}, topk_params, accesses);
        const MoeGroupParams group_params{.topk_ids = op.topk_ids.address(),
                                          .expert_offsets = op.expert_offsets.address(),
                                          .expert_pairs = op.expert_pairs.address(),
                                          .num_experts = num_experts,
                                          .num_pairs = rows * top_k};
        group(cmd, Grid{1}, group_params, accesses);
      },
      [](const MoeRoute& op) {
        if (op.topk_ids.dim(1) <= op.logits.dim(1)) return Availability::yes();
        return Availability::no("top-" + std::to_string(op.topk_ids.dim(1)) + " of only " + std::to_string(op.logits.dim(1)) +
                                " experts");
      });
}

/// Columns of an item of the expert kernels, and of one on tiles.
constexpr uint32_t kExpertTileColumns = 16;
uint32_t expert_columns_on_tiles(uint32_t columns) { return columns >= 256 ? 64 : kExpertTileColumns; }

/// Work items of the expert kernels for these parameters.
uint32_t expert_items(const MoeExpertsParams& params) {
  return params.active_slots * ceil_div(params.out_features, params.column_tile);
}

void launch_experts_up(CommandList& cmd, const MoeExpertsUp& op, uint32_t column_tile, const Kernel<MoeExpertsParams>& kernel) {
  const uint32_t num_experts = extent(op.gate_up.weight, 0);
  const uint32_t num_pairs = extent(op.expert_pairs, 0);
  const MoeExpertsParams params{.x = op.x.address(),
                                .weight = weight_params(op.gate_up),
                                .expert_offsets = op.expert_offsets.address(),
                                .expert_pairs = op.expert_pairs.address(),
                                .out = op.out.address(),
                                .x_stride = stride(op.x),
                                .pairs_per_row = extent(op.out, 1),
                                .num_experts = num_experts,
                                .active_slots = std::min(num_experts, num_pairs),
                                .in_features = extent(op.x, 1),
                                .out_features = extent(op.out, 2),
                                .column_tile = column_tile};
  kernel(cmd, Grid{expert_items(params)}, params, accesses_of(op));
}

void add_moe_experts_up(OpTable& table, const KernelModule& module) {
  const TileKernel<MoeExpertsParams> tile_kernel(module, "moe_experts_up");
  table.add<MoeExpertsUp>(
      "tiles",
      [tile_kernel](CommandList& cmd, const MoeExpertsUp& op) {
        launch_experts_up(cmd, op, expert_columns_on_tiles(extent(op.out, 2)), tile_kernel.get());
      },
      [tile_kernel](const MoeExpertsUp& op) {
        const Availability f32 = activations_are_f32({&op.x, &op.out});
        return f32 ? tile_kernel.available(op.gate_up) : f32;
      });
  const WeightKernels<MoeExpertsParams> kernels(module, "moe_experts_up");
  table.add<MoeExpertsUp>(
      "exact",
      [kernels](CommandList& cmd, const MoeExpertsUp& op) {
        launch_experts_up(cmd, op, kExpertTileColumns, kernels.get(op.gate_up.format));
      },
      [kernels](const MoeExpertsUp& op) {
        const Availability f32 = activations_are_f32({&op.x, &op.out});
        return f32 ? kernels.available(op.gate_up.format) : f32;
      });
}

/// The products of the pairs, [T, k, H] F32, before they are joined.
size_t down_workspace_bytes(const MoeExpertsDown& op) {
  return size_t{extent(op.expert_pairs, 0)} * extent(op.out, 1) * sizeof(float);
}

void launch_experts_down(CommandList& cmd, const MoeExpertsDown& op, uint32_t column_tile, const Kernel<MoeExpertsParams>& kernel,
                         const Kernel<MoeJoinParams>& join) {
  const uint32_t num_experts = extent(op.down.weight, 0);
  const uint32_t num_pairs = extent(op.expert_pairs, 0);
  const uint32_t hidden_size = extent(op.out, 1);
  const std::vector<Access> accesses = accesses_of(op);
  const MoeExpertsParams params{.x = op.act.address(),
                                .weight = weight_params(op.down),
                                .expert_offsets = op.expert_offsets.address(),
                                .expert_pairs = op.expert_pairs.address(),
                                .out = checked_workspace("moe_experts_down", op.workspace, down_workspace_bytes(op)),
                                .x_stride = static_cast<uint64_t>(op.act.dim(2)),
                                .pairs_per_row = 1,
                                .num_experts = num_experts,
                                .active_slots = std::min(num_experts, num_pairs),
                                .in_features = extent(op.act, 2),
                                .out_features = hidden_size,
                                .column_tile = column_tile};
  kernel(cmd, Grid{expert_items(params)}, params, accesses);
  const MoeJoinParams join_params{.products = params.out,
                                  .topk_weights = op.topk_weights.address(),
                                  .shared = op.shared.address(),
                                  .shared_gate = op.shared_gate.address(),
                                  .out = op.out.address(),
                                  .shared_stride = stride(op.shared),
                                  .shared_gate_stride = stride(op.shared_gate),
                                  .out_stride = stride(op.out),
                                  .top_k = extent(op.act, 1),
                                  .hidden_size = hidden_size};
  join(cmd, Grid{extent(op.out, 0) * ceil_div(hidden_size, kExpertJoinColumns)}, join_params, accesses);
}

Availability accepts_experts_down(const MoeExpertsDown& op) {
  if (op.shared.is_absent() != op.shared_gate.is_absent()) {
    return Availability::no("shared and shared_gate must be given together");
  }
  return activations_are_f32({&op.act, &op.shared, &op.out});
}

void add_moe_experts_down(OpTable& table, const KernelModule& module) {
  const auto join = module.resolve<MoeJoinParams>("moe_join");
  const TileKernel<MoeExpertsParams> tile_kernel(module, "moe_experts_down");
  table.add<MoeExpertsDown>(
      "tiles",
      [tile_kernel, join](CommandList& cmd, const MoeExpertsDown& op) {
        launch_experts_down(cmd, op, expert_columns_on_tiles(extent(op.out, 1)), tile_kernel.get(), join);
      },
      [tile_kernel](const MoeExpertsDown& op) {
        const Availability accepted = accepts_experts_down(op);
        return accepted ? tile_kernel.available(op.down) : accepted;
      },
      down_workspace_bytes);
  const WeightKernels<MoeExpertsParams> kernels(module, "moe_experts_down");
  table.add<MoeExpertsDown>(
      "exact",
      [kernels, join](CommandList& cmd, const MoeExpertsDown& op) {
        launch_experts_down(cmd, op, kExpertTileColumns, kernels.get(op.down.format), join);
      },
      [kernels](const MoeExpertsDown& op) {
        const Availability accepted = accepts_experts_down(op);
        return accepted ? kernels.available(op.down.format) : accepted;
      },
      down_workspace_bytes);
}

}  // namespace

void add_moe_ops(OpTable& table, const KernelModule& module) {
  add_moe_route(table, module);
  add_moe_experts_up(table, module);
  add_moe_experts_down(table, module);
}

}  // namespace foretoken::cpu
