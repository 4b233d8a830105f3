// linear_argmax (core/ops/linear.h). Work group (part, row tile): the columns of `tiles_per_part` tiles; logical warp r keeps
// what row r has seen, each of its lanes of its own columns.
#version 460
#define TILE_BUFFERS 2
#include "backends/vulkan/shaders/device.glsl"
#include "backends/vulkan/shaders/tile_sums.glsl"
#include "backends/vulkan/shaders/row_best.glsl"

PARAMS(LinearArgmaxParams);

void main() {
  const LinearArgmaxParams p = params;
  const uint warp = thread_index() / kLanes;
  const uint lane = lane_index();
  const uint first_row = gl_WorkGroupID.y * ROWS;
  const uint columns = kWarps / p.num_slices * kWarpColumns;
  const ActivationRows x = activation_rows(p.x, p.x_stride, first_row, p.num_rows);
  RowBest row = nothing_seen();
  for (uint t = 0; t < p.tiles_per_part; ++t) {
    const uint first_column = (gl_WorkGroupID.x * p.tiles_per_part + t) * columns;
    if (first_column >= p.out_features) break;
    const WeightRows rows =
        weight_rows(p.weight, first_column, first_column + warp / p.num_slices * kWarpColumns, p.out_features, p.in_features);
    float sums[kTileValues] = no_sums();
    add_slice(p.weight, rows, x, p.in_features, warp % p.num_slices, p.num_slices, p.x_is_bf16, ROWS, sums);
    // With two buffers in turn, one barrier a tile is enough: who stores has passed the barrier of the tile in between.
    store_sums(t % 2, sums);
    const uint column = first_column + lane;
    if (warp >= ROWS || lane >= columns || column >= p.out_features) continue;
    const uint value = lane % kWarpColumns * ROWS + warp;
    const float logit = tile_value(t % 2, lane / kWarpColumns, value, p.num_slices) * outer_scale(p.weight, column);
    row = with_logit(row, logit, int(column));
  }
  row = joined_over_lanes(row);
  if (warp >= ROWS || lane != 0 || first_row + warp >= p.num_rows) return;
  const uint64_t part = uint64_t(first_row + warp) * p.num_parts + gl_WorkGroupID.x;
  store_f32(p.part_max, part, row.best.index < 0 ? row.maximum : row.best.value);
  store_i32(p.part_id, part, row.best.index);
  store_f32(p.part_sum, part, row.sum);
}
