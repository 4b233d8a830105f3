// Work group t: the parts of row t of linear_argmax, in a fixed order.
#version 460
#include "backends/vulkan/shaders/device.glsl"
#include "backends/vulkan/shaders/linear_combine.glsl"

PARAMS(LinearArgmaxCombineParams);

void main() {
  const LinearArgmaxCombineParams p = params;
  const uint64_t first = uint64_t(gl_WorkGroupID.x) * p.num_parts;
  RowBest row = nothing_seen();
  for (uint i = thread_index(); i < p.num_parts; i += kThreads) {
    const float maximum = load_f32(p.part_max, first + i);
    row = joined(row, RowBest(Candidate(maximum, load_i32(p.part_id, first + i)), maximum, load_f32(p.part_sum, first + i)));
  }
  finish_row(row, p.token_map, p.token_ids, p.logprobs);
}
