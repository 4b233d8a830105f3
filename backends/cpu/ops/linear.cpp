// The exact, row-invariant implementations of the linear operators.
#include "core/ops/linear_group.h"

#include <algorithm>

#include "backends/cpu/cpu_ops.h"
#include "backends/cpu/kernels/linear_params.h"
#include "backends/cpu/ops/linear_support.h"

namespace foretoken::cpu {
namespace {

struct Tiles {
  uint32_t row_tile;
  uint32_t column_tile;
  uint32_t count;
};

/// At most `rows`, and not more than NVFP4 kernels can arrange.
uint32_t row_tile_for(uint32_t rows, const LinearWeight& weight) {
  if (weight.format != WeightFormat::kNvfp4) return rows;
  const size_t padded = (static_cast<size_t>(weight.in_features()) + 255) / 256 * 256;
  return static_cast<uint32_t>(std::clamp<size_t>(kArrangedFloats / padded, 1, rows));
}

/// How a launch is cut into items; results do not depend on it. Up to sixteen rows (decode, verify) each weight is read once, by
/// one item, and an item is about 12 KiB of weights: enough to pay for itself, little enough to share out. From three rows on it
/// has at least sixteen columns, so that a part of the rows is read from a second-level cache for as many (linear_tile.h).
Tiles tiles_for(uint32_t rows, const LinearWeight& weight) {
  const auto columns = static_cast<uint32_t>(weight.out_features());
  const size_t column_bytes = weight.bytes() / columns;
  const bool is_decode = rows <= 16;
  const uint32_t row_tile = row_tile_for(is_decode ? rows : kMaxRowTile, weight);
  uint32_t column_tile = is_decode && rows <= 2 ? 8 : 16;
  while (is_decode && column_tile < 32 && size_t{2} * column_tile * column_bytes <= 12288) column_tile *= 2;
  return {.row_tile = row_tile, .column_tile = column_tile, .count = ceil_div(rows, row_tile) * ceil_div(columns, column_tile)};
}

LinearParams linear_params(const Linear& op, const Tiles& tiles) {
  return {.x = op.x.address(),
          .weight = weight_params(op.w),
          .out = op.out.address(),
          .x_stride = stride(op.x),
          .out_stride = stride(op.out),
          .num_rows = extent(op.x, 0),
          .in_features = extent(op.x, 1),
          .out_features = extent(op.out, 1),
          .row_tile = tiles.row_tile,
          .column_tile = tiles.column_tile,
          .reserved = 0};
}

Availability accepts_linear(const WeightKernels<LinearParams>& kernels, const Linear& op) {
  const Availability f32 = activations_are_f32({&op.x, &op.out});
  return f32 ? kernels.available(op.w.format) : f32;
}

void add_linear(OpTable& table, const KernelModule& module) {
  const WeightKernels<LinearParams> kernels(module, "linear");
  table.add<Linear>(
      "exact",
      [kernels](CommandList& cmd, const Linear& op) {
        const Tiles tiles = tiles_for(extent(op.x, 0), op.w);
        kernels.get(op.w.format)(cmd, Grid{tiles.count}, linear_params(op, tiles), accesses_of(op));
      },
      [kernels](const Linear& op) { return accepts_linear(kernels, op); });
}

static_assert(LinearGroup::kMaxProjections == LinearGroupParams::kMaxParts);

void launch_group(CommandList& cmd, const LinearGroup& op, const Kernel<LinearGroupParams>& kernel) {
  LinearGroupParams params{};
  params.num_parts = static_cast<uint32_t>(op.num_projections());
  Grid grid{0};
  for (uint32_t i = 0; i < params.num_parts; ++i) {
    const Linear projection = op.projection(i);
    const Tiles tiles = tiles_for(extent(op.x, 0), projection.w);
    params.parts[i] = {.linear = linear_params(projection, tiles),
                       .num_items = tiles.count,
                       .format = static_cast<uint32_t>(projection.w.format)};
    grid.x += tiles.count;
  }
  kernel(cmd, grid, params, accesses_of(op));
}

void add_linear_group(OpTable& table, const KernelModule& module) {
  const WeightKernels<LinearParams> kernels(module, "linear");  // says which formats there are
  const auto group = module.resolve<LinearGroupParams>("linear_group");
  table.add<LinearGroup>(
      "exact", [group](CommandList& cmd, const LinearGroup& op) { launch_group(cmd, op, group); },
      [kernels](const LinearGroup& op) {
        if (op.precision != LinearPrecision::kExact) return Availability::no("for float32 activations only");
        for (size_t i = 0; i < op.num_projections(); ++i) {
          if (const Availability accepted = accepts_linear(kernels, op.projection(i)); !accepted) return accepted;
        }
        return Availability::yes();
      });
}

void add_linear_silu_mul(OpTable& table, const KernelModule& module) {
  const WeightKernels<LinearSiluMulParams> kernels(module, "linear_silu_mul");
  table.add<LinearSiluMul>(
      "exact",
      [kernels](CommandList& cmd, const LinearSiluMul& op) {
        const uint32_t rows = extent(op.x, 0);
        const uint32_t columns = extent(op.out, 1);
        const Tiles tiles = tiles_for(rows, op.gate);
        const LinearSiluMulParams params{.x = op.x.address(),
                                         .gate = weight_params(op.gate),
                                         .up = weight_params(op.up),
                                         .out = op.out.address(),
                                         .x_stride = stride(op.x),
                                         .out_stride = stride(op.out),
                                         .num_rows = rows,
                                         .in_features = extent(op.x, 1),
                                         .out_features = columns,
                                         .row_tile = tiles.row_tile,
                                         .column_tile = tiles.column_tile,
                                         .reserved = 0};
        kernels.get(op.gate.format)(cmd, Grid{tiles.count}, params, accesses_of(op));
      },
      [kernels](const LinearSiluMul& op) {
        const Availability f32 = activations_are_f32({&op.x, &op.out});
        return f32 ? kernels.available(op.gate.format) : f32;
      });
}

size_t argmax_workspace_bytes(const LinearArgmax& op) {
  const uint32_t tiles = ceil_div(static_cast<uint32_t>(op.w.out_features()), kArgmaxTileColumns);
  return size_t{extent(op.x, 0)} * tiles * (2 * sizeof(float) + sizeof(int32_t));
}

void launch_argmax(CommandList& cmd, const LinearArgmax& op, const Kernel<LinearArgmaxParams>& kernel,
                   const Kernel<LinearArgmaxCombineParams>& combine) {
  const uint32_t rows = extent(op.x, 0);
  const auto columns = static_cast<uint32_t>(op.w.out_features());
  const uint32_t tiles = ceil_div(columns, kArgmaxTileColumns);
  const uint64_t workspace = checked_workspace("linear_argmax", op.workspace, argmax_workspace_bytes(op));
  const uint64_t part_bytes = uint64_t{rows} * tiles * sizeof(float);
  const uint64_t tile_sum = op.logprobs ? workspace + 2 * part_bytes : 0;
  const std::vector<Access> accesses = accesses_of(op);
  const LinearArgmaxParams params{.x = op.x.address(),
                                  .weight = weight_params(op.w),
                                  .tile_max = workspace,
                                  .tile_id = workspace + part_bytes,
                                  .tile_sum = tile_sum,
                                  .x_stride = stride(op.x),
                                  .num_rows = rows,
                                  .in_features = extent(op.x, 1),
                                  .out_features = columns,
                                  .row_tile = row_tile_for(std::min(rows, kMaxRowTile), op.w),
                                  .column_tile = kArgmaxTileColumns,
                                  .reserved = 0};
  kernel(cmd, Grid{ceil_div(rows, params.row_tile) * tiles}, params, accesses);
  const LinearArgmaxCombineParams combine_params{.tile_max = params.tile_max,
                                                 .tile_id = params.tile_id,
                                                 .tile_sum = tile_sum,
                                                 .token_map = op.token_map.address(),
                                                 .token_ids = op.token_ids.address(),
                                                 .logprobs = op.logprobs.address(),
                                                 .num_tiles = tiles,
                                                 .reserved = 0};
  combine(cmd, Grid{rows}, combine_params, accesses);
}

void add_linear_argmax(OpTable& table, const KernelModule& module) {
  const WeightKernels<LinearArgmaxParams> kernels(module, "linear_argmax");
  const auto combine = module.resolve<LinearArgmaxCombineParams>("linear_argmax_combine");
  table.add<LinearArgmax>(
      "exact",
      [kernels, combine](CommandList& cmd, const LinearArgmax& op) { launch_argmax(cmd, op, kernels.get(op.w.format), combine); },
      [kernels](const LinearArgmax& op) {
        const Availability f32 = activations_are_f32({&op.x});
        return f32 ? kernels.available(op.w.format) : f32;
      },
      argmax_workspace_bytes);
}

}  // namespace

void add_linear_ops(OpTable& table, const KernelModule& module) {
  add_linear(table, module);
  add_linear_group(table, module);
  add_linear_silu_mul(table, module);
  add_linear_argmax(table, module);
}

}  // namespace foretoken::cpu
