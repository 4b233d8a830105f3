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

/// The same for the kernels on tiles. Up to sixteen rows weights are read once all the same.
uint32_t row_tile_on_tiles(uint32_t rows, const LinearWeight& weight) {
  const auto arranged = kArrangedTileRows * kMaxTileFeatures / static_cast<uint32_t>(weight.in_features());
  return rows <= 16 ? rows : std::clamp(arranged / 8 * 8, 8U, std::min(rows, kMaxRowTile));
}

/// For the kernels on tiles, which take up to four times sixteen columns together: as many as leave items to share out.
Tiles tiles_of_tiles(uint32_t rows, const LinearWeight& weight) {
  const auto columns = static_cast<uint32_t>(weight.out_features());
  const uint32_t row_tile = row_tile_on_tiles(rows, weight);
  const uint32_t column_tile = columns >= 1024 ? 64 : columns >= 256 ? 32 : 16;
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
  const TileKernel<LinearParams> tile_kernel(module, "linear");
  table.add<Linear>(
      "tiles",
      [tile_kernel](CommandList& cmd, const Linear& op) {
        const Tiles tiles = tiles_of_tiles(extent(op.x, 0), op.w);
        tile_kernel.get()(cmd, Grid{tiles.count}, linear_params(op, tiles), accesses_of(op));
      },
      [tile_kernel](const Linear& op) {
        const Availability f32 = activations_are_f32({&op.x, &op.out});
        return f32 ? tile_kernel.available(op.w) : f32;
      });
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

struct GroupKernels {
  WeightKernels<LinearParams> kernels;  // say which formats there are
  TileKernel<LinearParams> tile_kernel;
  Kernel<LinearGroupParams> group;
  Kernel<LinearGroupParams> group_tiles;

  explicit GroupKernels(const KernelModule& module)
      : kernels(module, "linear"),
        tile_kernel(module, "linear"),
        group(module.resolve<LinearGroupParams>("linear_group")),
        group_tiles(module.resolve_optional<LinearGroupParams>("linear_group_tiles")) {}
};

/// The projections on tiles in one launch, all others in another.
void launch_group(CommandList& cmd, const LinearGroup& op, const GroupKernels& kernels) {
  for (const bool on_tiles : {true, false}) {
    LinearGroupParams params{};
    Grid grid{0};
    for (uint32_t i = 0; i < op.num_projections(); ++i) {
      const Linear projection = op.projection(i);
      if (bool(kernels.tile_kernel.available(projection.w)) != on_tiles) continue;
      const uint32_t rows = extent(op.x, 0);
      const Tiles tiles = on_tiles ? tiles_of_tiles(rows, projection.w) : tiles_for(rows, projection.w);
      params.parts[params.num_parts++] = {.linear = linear_params(projection, tiles),
                                          .num_items = tiles.count,
                                          .format = static_cast<uint32_t>(projection.w.format)};
      grid.x += tiles.count;
    }
    if (params.num_parts > 0) (on_tiles ? kernels.group_tiles : kernels.group)(cmd, grid, params, accesses_of(op));
  }
}

void add_linear_group(OpTable& table, const KernelModule& module) {
  const GroupKernels kernels(module);
  table.add<LinearGroup>(
      "exact", [kernels](CommandList& cmd, const LinearGroup& op) { launch_group(cmd, op, kernels); },
      [kernels](const LinearGroup& op) {
        if (op.precision != LinearPrecision::kExact) return Availability::no("for float32 activations only");
        for (size_t i = 0; i < op.num_projections(); ++i) {
          if (const Availability accepted = accepts_linear(kernels.kernels, op.projection(i)); !accepted) return accepted;
        }
        return Availability::yes();
      });
}

void launch_silu_mul(CommandList& cmd, const LinearSiluMul& op, const Tiles& tiles, const Kernel<LinearSiluMulParams>& kernel) {
  const LinearSiluMulParams params{.x = op.x.address(),
                                   .gate = weight_params(op.gate),
                                   .up = weight_params(op.up),
                                   .out = op.out.address(),
                                   .x_stride = stride(op.x),
                                   .out_stride = stride(op.out),
                                   .num_rows = extent(op.x, 0),
                                   .in_features = extent(op.x, 1),
                                   .out_features = extent(op.out, 1),
                                   .row_tile = tiles.row_tile,
                                   .column_tile = tiles.column_tile,
                                   .reserved = 0};
  kernel(cmd, Grid{tiles.count}, params, accesses_of(op));
}

void add_linear_silu_mul(OpTable& table, const KernelModule& module) {
  const TileKernel<LinearSiluMulParams> tile_kernel(module, "linear_silu_mul");
  table.add<LinearSiluMul>(
      "tiles",
      [tile_kernel](CommandList& cmd, const LinearSiluMul& op) {
        launch_silu_mul(cmd, op, tiles_of_tiles(extent(op.x, 0), op.gate), tile_kernel.get());
      },
      [tile_kernel](const LinearSiluMul& op) {
        const Availability f32 = activations_are_f32({&op.x, &op.out});
        return f32 ? tile_kernel.available(op.gate) : f32;
      });
  const WeightKernels<LinearSiluMulParams> kernels(module, "linear_silu_mul");
  table.add<LinearSiluMul>(
      "exact",
      [kernels](CommandList& cmd, const LinearSiluMul& op) {
        launch_silu_mul(cmd, op, tiles_for(extent(op.x, 0), op.gate), kernels.get(op.gate.format));
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

void launch_argmax(CommandList& cmd, const LinearArgmax& op, uint32_t row_tile, const Kernel<LinearArgmaxParams>& kernel,
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
                                  .row_tile = row_tile,
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
  const TileKernel<LinearArgmaxParams> tile_kernel(module, "linear_argmax");
  const WeightKernels<LinearArgmaxParams> kernels(module, "linear_argmax");
  const auto combine = module.resolve<LinearArgmaxCombineParams>("linear_argmax_combine");
  table.add<LinearArgmax>(
      "tiles",
      [tile_kernel, combine](CommandList& cmd, const LinearArgmax& op) {
        launch_argmax(cmd, op, row_tile_on_tiles(extent(op.x, 0), op.w), tile_kernel.get(), combine);
      },
      [tile_kernel](const LinearArgmax& op) {
        const Availability f32 = activations_are_f32({&op.x});
        return f32 ? tile_kernel.available(op.w) : f32;
      },
      argmax_workspace_bytes);
  table.add<LinearArgmax>(
      "exact",
      [kernels, combine](CommandList& cmd, const LinearArgmax& op) {
        const uint32_t row_tile = row_tile_for(std::min(extent(op.x, 0), kMaxRowTile), op.w);
        launch_argmax(cmd, op, row_tile, kernels.get(op.w.format), combine);
      },
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
