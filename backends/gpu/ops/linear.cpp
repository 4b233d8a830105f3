// The exact, row-invariant implementations of the linear operators.
#include "core/ops/linear.h"

#include <algorithm>
#include <vector>

#include "backends/gpu/gpu_ops.h"
#include "backends/gpu/ops/weights.h"

namespace foretoken::gpu {
namespace {

template <class Params>
using LinearKernels = WeightKernels<Params, 1, 2, 4, 8>;

/// Columns of the result that one work group of `warps` computes.
uint32_t group_columns(uint32_t warps, uint32_t slices, uint32_t warp_columns) { return warps / slices * warp_columns; }

void add_linear(OpTable& table, const KernelModule& module) {
  const LinearKernels<LinearParams> kernels(module, "linear");
  table.add<Linear>(
      "exact",
      [kernels](CommandList& cmd, const Linear& op) {
        const LinearParams params = linear_params(op.w, op.x, op.out, kernels.one_row_columns(op.w.format));
        const auto [kernel, rows, warp_columns] = kernels.choose(op.w, op.x, params.num_rows);
        const uint32_t columns = group_columns(kLinearWarps, params.num_slices, warp_columns);
        kernel(cmd, Grid{ceil_div(params.out_features, columns), ceil_div(params.num_rows, rows)}, params, accesses_of(op));
      },
      [](const Linear& op) { return fits_32_bits(op.x); });
}

void add_linear_silu_mul(OpTable& table, const KernelModule& module) {
  const LinearKernels<LinearParams> kernels(module, "linear_silu_mul");
  table.add<LinearSiluMul>(
      "exact",
      [kernels](CommandList& cmd, const LinearSiluMul& op) {
        const LinearParams params = linear_params(op, kernels.one_row_columns(op.gate.format));
        const bool aligned = is_aligned(op.up, op.x);
        const auto [kernel, rows, warp_columns] = kernels.choose(aligned ? op.gate : op.up, op.x, params.num_rows);
        const uint32_t columns = group_columns(kLinearWarps, params.num_slices, warp_columns / 2);
        kernel(cmd, Grid{ceil_div(params.out_features, columns), ceil_div(params.num_rows, rows)}, params, accesses_of(op));
      },
      [](const LinearSiluMul& op) {
        const Availability same = gate_and_up_agree(op);
        return same ? fits_32_bits(op.x) : same;
      });
}

/// How the columns of linear_argmax are shared out: work groups take some tiles each and leave one partial result.
struct ArgmaxParts {
  uint32_t num_slices;
  uint32_t tiles_per_part;
  uint32_t num_parts;
};

ArgmaxParts argmax_parts(const LinearWeight& w) {
  constexpr uint32_t kWantedParts = 1024;
  const auto columns = static_cast<uint32_t>(w.out_features());
  const uint32_t slices = num_slices(w, w.out_features(), kWarpColumns);
  const uint32_t tiles = ceil_div(columns, group_columns(kArgmaxWarps, slices, kWarpColumns));
  const uint32_t tiles_per_part = std::max(1U, tiles / kWantedParts);
  return {.num_slices = slices, .tiles_per_part = tiles_per_part, .num_parts = ceil_div(tiles, tiles_per_part)};
}

size_t argmax_workspace_bytes(const LinearArgmax& op) {
  return size_t{extent(op.x, 0)} * argmax_parts(op.w).num_parts * (2 * sizeof(float) + sizeof(int32_t));
}

void launch_argmax(CommandList& cmd, const LinearArgmax& op, const LinearKernels<LinearArgmaxParams>& kernels,
                   const Kernel<LinearArgmaxCombineParams>& combine) {
  const uint32_t num_rows = extent(op.x, 0);
  const ArgmaxParts parts = argmax_parts(op.w);
  const uint64_t workspace = checked_workspace("linear_argmax", op.workspace, argmax_workspace_bytes(op));
  const uint64_t part_bytes = uint64_t{num_rows} * parts.num_parts * sizeof(float);
  const LinearArgmaxParams params{.weight = weight_params(op.w),
                                  .x = op.x.address(),
                                  .part_max = workspace,
                                  .part_id = workspace + part_bytes,
                                  .part_sum = workspace + 2 * part_bytes,
                                  .x_stride = stride(op.x),
                                  .num_rows = num_rows,
                                  .in_features = extent(op.x, 1),
                                  .out_features = static_cast<uint32_t>(op.w.out_features()),
                                  .num_slices = parts.num_slices,
                                  .x_is_bf16 = is_bf16(op.x),
                                  .num_parts = parts.num_parts,
                                  .tiles_per_part = parts.tiles_per_part,
                                  .reserved = 0};
  const std::vector<Access> accesses = accesses_of(op);
  const auto choice = kernels.choose(op.w, op.x, num_rows);
  choice.kernel(cmd, Grid{parts.num_parts, ceil_div(num_rows, choice.rows)}, params, accesses);
  const LinearArgmaxCombineParams combine_params{.part_max = params.part_max,
                                                 .part_id = params.part_id,
                                                 .part_sum = params.part_sum,
                                                 .token_map = op.token_map.address(),
                                                 .token_ids = op.token_ids.address(),
                                                 .logprobs = op.logprobs.address(),
                                                 .num_parts = parts.num_parts,
                                                 .reserved = 0};
  combine(cmd, Grid{num_rows}, combine_params, accesses);
}

void add_linear_argmax(OpTable& table, const KernelModule& module) {
  const LinearKernels<LinearArgmaxParams> kernels(module, "linear_argmax");
  const auto combine = module.resolve<LinearArgmaxCombineParams>("linear_argmax_combine");
  table.add<LinearArgmax>(
      "exact", [kernels, combine](CommandList& cmd, const LinearArgmax& op) { launch_argmax(cmd, op, kernels, combine); },
      [](const LinearArgmax& op) { return fits_32_bits(op.x); }, argmax_workspace_bytes);
}

}  // namespace

void add_linear_ops(OpTable& table, const KernelModule& module) {
  add_linear(table, module);
  add_linear_silu_mul(table, module);
  add_linear_argmax(table, module);
}

}  // namespace foretoken::gpu
