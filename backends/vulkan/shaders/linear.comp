// linear (core/ops/linear.h).
#version 460
#define TILE_BUFFERS 1
#include "backends/vulkan/shaders/device.glsl"
#include "backends/vulkan/shaders/tile_sums.glsl"

PARAMS(LinearParams);

void main() {
  const LinearParams p = params;
  const uint thread = thread_index();
  const uint warp = thread / kLanes;
  const uint groups = kWarps / p.num_slices;
  const uint first_row = gl_WorkGroupID.y * ROWS;
  const uint first_column = gl_WorkGroupID.x * groups * kWarpColumns;
  const ActivationRows x = activation_rows(p.x, p.x_stride, first_row, p.num_rows);
  const WeightRows rows =
      weight_rows(p.weight, first_column, first_column + warp / p.num_slices * kWarpColumns, p.out_features, p.in_features);
  float sums[kTileValues] = no_sums();
  add_slice(p.weight, rows, x, p.in_features, warp % p.num_slices, p.num_slices, p.x_is_bf16, ROWS, sums);
  store_sums(0, sums);

  if (thread >= groups * kTileValues) return;
  const uint group = thread / kTileValues;
  const uint value = thread % kTileValues;
  const uint column = first_column + group * kWarpColumns + value / ROWS;
  const uint row = first_row + value % ROWS;
  if (column >= p.out_features || row >= p.num_rows) return;
  const float sum = tile_value(0, group, value, p.num_slices) * outer_scale(p.weight, column);
  store_float(p.out_, row * p.out_stride + column, sum, p.out_is_bf16);
}
