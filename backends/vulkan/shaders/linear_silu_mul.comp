// linear_silu_mul (core/ops/linear.h). A tile is two columns: two rows of gate, then the same two of up.
#version 460
#define TILE_BUFFERS 1
#include "backends/vulkan/shaders/device.glsl"
#include "backends/vulkan/shaders/tile_sums.glsl"

PARAMS(LinearParams);

const uint kColumns = kWarpColumns / 2;
const uint kGateValues = kTileValues / 2;

void main() {
  const LinearParams p = params;
  const uint thread = thread_index();
  const uint warp = thread / kLanes;
  const uint groups = kWarps / p.num_slices;
  const uint first_row = gl_WorkGroupID.y * ROWS;
  const uint first_column = gl_WorkGroupID.x * groups * kColumns;
  const ActivationRows x = activation_rows(p.x, p.x_stride, first_row, p.num_rows);
  WeightRows rows;
  [[unroll]] for (uint c = 0; c < kColumns; ++c) {
    const uint n = min(first_column + warp / p.num_slices * kColumns + c, p.out_features - 1);
    set_weight_row(rows, c, p.weight, first_column, n, p.in_features);
    set_weight_row(rows, kColumns + c, p.second, first_column, n, p.in_features);
  }
  float sums[kTileValues] = no_sums();
  add_slice(p.weight, rows, x, p.in_features, warp % p.num_slices, p.num_slices, p.x_is_bf16, ROWS, sums);
  store_sums(0, sums);

  if (thread >= groups * kGateValues) return;
  const uint group = thread / kGateValues;
  const uint value = thread % kGateValues;
  const uint column = first_column + group * kColumns + value / ROWS;
  const uint row = first_row + value % ROWS;
  if (column >= p.out_features || row >= p.num_rows) return;
  const float gate = tile_value(0, group, value, p.num_slices) * outer_scale(p.weight, column);
  const float up = tile_value(0, group, kGateValues + value, p.num_slices) * outer_scale(p.second, column);
  store_float(p.out_, row * p.out_stride + column, silu(gate) * up, p.out_is_bf16);
}
