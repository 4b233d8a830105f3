// Work group t: the parts of row t of linear_argmax, in a fixed order.
#version 460
#include "backends/vulkan/shaders/device.glsl"
#include "backends/vulkan/shaders/linear_params.glsl"
#include "backends/vulkan/shaders/row_best.glsl"

PARAMS(LinearArgmaxCombineParams);

shared RowBest warps[kWarps];

void main() {
  const LinearArgmaxCombineParams p = params;
  const uint64_t first = uint64_t(gl_WorkGroupID.x) * p.num_parts;
  RowBest row = nothing_seen();
  for (uint i = thread_index(); i < p.num_parts; i += kThreads) {
    const float maximum = load_f32(p.part_max, first + i);
    row = joined(row, RowBest(Candidate(maximum, load_i32(p.part_id, first + i)), maximum, load_f32(p.part_sum, first + i)));
  }
  row = joined_over_lanes(row);
  if (lane_index() == 0) warps[warp_index()] = row;
  barrier();
  if (thread_index() != 0) return;
  for (uint warp = 1; warp < kWarps; ++warp) row = joined(row, warps[warp]);
  const uint index = row.best.index < 0 ? 0 : uint(row.best.index);
  store_i32(p.token_ids, gl_WorkGroupID.x, p.token_map == 0 ? int(index) : load_i32(p.token_map, index));
  if (p.logprobs != 0) store_f32(p.logprobs, gl_WorkGroupID.x, row.best.value - (row.maximum + log(row.sum)));
}
