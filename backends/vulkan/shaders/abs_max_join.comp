// The largest of what the work groups of abs_max found.
#version 460
#include "backends/vulkan/shaders/device.glsl"
#include "backends/vulkan/shaders/quantize.glsl"

struct AbsMaxJoinParams {
  uint64_t partial;
  uint64_t amax;
  uint64_t num_partial;
};
PARAMS(AbsMaxJoinParams);

void main() {
  uint largest = 0;
  for (uint i = thread_index(); i < uint(params.num_partial); i += kThreads) largest = max(largest, load_u32(params.partial, i));
  largest = group_largest(largest);
  if (thread_index() == 0) store_u32(params.amax, 0, largest);
}
