// The implementations of the mixture-of-experts operators.
#include "backends/gpu/ops/moe.h"

#include <algorithm>

#include "backends/gpu/gpu_ops.h"
#include "backends/gpu/ops/weights.h"

namespace foretoken::gpu {
namespace {

using ExpertKernels = WeightKernels<MoeExpertsParams, 1, 4>;

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
                                        .num_rows = rows,
                                        .num_experts = num_experts,
                                        .top_k = top_k,
                                        .renormalise = op.norm_topk_prob ? 1U : 0U};
        topk(cmd, Grid{ceil_div(rows, kRouteThreads / 32)}, topk_params, accesses);
        const MoeGroupParams group_params{.topk_ids = op.topk_ids.address(),
                                          .expert_offsets = op.expert_offsets.address(),
                                          .expert_pairs = op.expert_pairs.address(),
                                          .num_experts = num_experts,
                                          .num_pairs = rows * top_k};
        group(cmd, Grid{1}, group_params, accesses);
      },
      [](const MoeRoute& op) {
        if (op.topk_ids.dim(1) <= op.logits.dim(1)) return dim_at_most(op.logits, 1, kMaxExperts, "router outputs");
        return Availability::no("top-" + std::to_string(op.topk_ids.dim(1)) + " of only " + std::to_string(op.logits.dim(1)) +
                                " experts");
      });
}

/// Puts one of the expert kernels on the list. `params` lacks what follows from the weight. `num_rows` may meet in one expert.
void launch_experts(CommandList& cmd, const ExpertKernels& kernels, const LinearWeight& w, const Tensor& x, uint32_t num_rows,
                    uint32_t num_pairs, uint32_t warp_columns, MoeExpertsParams params, std::span<const Access> accesses) {
  params.weight = weight_params(w);
  params.num_experts = extent(w.weight, 0);
  params.num_slices = num_slices(w, w.out_features(), kWarpColumns);
  const auto& kernel = kernels.choose(w, x, num_rows).kernel;
  const uint32_t columns = kLinearWarps / params.num_slices * warp_columns;
  kernel(cmd, Grid{ceil_div(params.out_features, columns), std::min(params.num_experts, num_pairs)}, params, accesses);
}

void add_moe_experts_up(OpTable& table, const KernelModule& module) {
  const ExpertKernels kernels(module, "moe_experts_up");
  table.add<MoeExpertsUp>(
      "exact",
      [kernels](CommandList& cmd, const MoeExpertsUp& op) {
        launch_experts(cmd, kernels, op.gate_up, op.x, extent(op.x, 0), extent(op.expert_pairs, 0), kWarpColumns / 2,
                       experts_up_params(op), accesses_of(op));
      },
      [](const MoeExpertsUp& op) { return fits_32_bits(op.x); });
}

void launch_experts_down(CommandList& cmd, const MoeExpertsDown& op, const ExpertKernels& kernels,
                         const Kernel<MoeJoinParams>& join) {
  const std::vector<Access> accesses = accesses_of(op);
  const uint64_t products = checked_workspace("moe_experts_down", op.workspace, products_bytes(op));
  launch_experts(cmd, kernels, op.down, pairs_of(op), extent(op.out, 0), extent(op.expert_pairs, 0), kWarpColumns,
                 experts_down_params(op, products), accesses);
  launch_join(cmd, op, products, join, accesses);
}

void add_moe_experts_down(OpTable& table, const KernelModule& module) {
  const ExpertKernels kernels(module, "moe_experts_down");
  const auto join = module.resolve<MoeJoinParams>("moe_join");
  table.add<MoeExpertsDown>(
      "exact", [kernels, join](CommandList& cmd, const MoeExpertsDown& op) { launch_experts_down(cmd, op, kernels, join); },
      [](const MoeExpertsDown& op) {
        const Availability shared = has_whole_shared(op);
        return shared ? fits_32_bits(op.act) : shared;
      },
      products_bytes);
}

}  // namespace

MoeExpertsParams experts_up_params(const MoeExpertsUp& op) {
  return {.weight = {},
          .x = op.x.address(),
          .expert_offsets = op.expert_offsets.address(),
          .expert_pairs = op.expert_pairs.address(),
          .out = op.out.address(),
          .x_stride = stride(op.x),
          .pairs_per_row = extent(op.out, 1),
          .num_experts = 0,
          .in_features = extent(op.x, 1),
          .out_features = extent(op.out, 2),
          .num_slices = 1,
          .x_is_bf16 = is_bf16(op.x),
          .out_is_bf16 = is_bf16(op.out),
          .reserved = 0};
}

MoeExpertsParams experts_down_params(const MoeExpertsDown& op, uint64_t products) {
  const Tensor pairs = pairs_of(op);
  return {.weight = {},
          .x = pairs.address(),
          .expert_offsets = op.expert_offsets.address(),
          .expert_pairs = op.expert_pairs.address(),
          .out = products,
          .x_stride = stride(pairs),
          .pairs_per_row = 1,
          .num_experts = 0,
          .in_features = extent(pairs, 1),
          .out_features = extent(op.out, 1),
          .num_slices = 1,
          .x_is_bf16 = is_bf16(pairs),
          .out_is_bf16 = 0,
          .reserved = 0};
}

Tensor pairs_of(const MoeExpertsDown& op) { return op.act.reshape({op.act.dim(0) * op.act.dim(1), op.act.dim(2)}); }

size_t products_bytes(const MoeExpertsDown& op) {
  return size_t{extent(op.act, 0)} * extent(op.act, 1) * extent(op.out, 1) * sizeof(float);
}

Availability has_whole_shared(const MoeExpertsDown& op) {
  if (op.shared.is_absent() == op.shared_gate.is_absent()) return Availability::yes();
  return Availability::no("shared and shared_gate must be given together");
}

void launch_join(CommandList& cmd, const MoeExpertsDown& op, uint64_t products, const Kernel<MoeJoinParams>& join,
                 std::span<const Access> accesses) {
  const uint32_t hidden_size = extent(op.out, 1);
  const MoeJoinParams params{.products = products,
                             .topk_weights = op.topk_weights.address(),
                             .shared = op.shared.address(),
                             .shared_gate = op.shared_gate.address(),
                             .out = op.out.address(),
                             .shared_stride = stride(op.shared),
                             .shared_gate_stride = stride(op.shared_gate),
                             .out_stride = stride(op.out),
                             .top_k = extent(op.act, 1),
                             .hidden_size = hidden_size,
                             .shared_is_bf16 = op.shared ? is_bf16(op.shared) : 0U,
                             .out_is_bf16 = is_bf16(op.out)};
  join(cmd, Grid{ceil_div(hidden_size, kJoinThreads), extent(op.out, 0)}, params, accesses);
}

void add_moe_ops(OpTable& table, const KernelModule& module) {
  add_moe_route(table, module);
  add_moe_experts_up(table, module);
  add_moe_experts_down(table, module);
}

}  // namespace foretoken::gpu
