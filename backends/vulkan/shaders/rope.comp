// Rotates the first elements of each head in place. Grid: (heads, rows).
#version 460
#include "backends/vulkan/shaders/device.glsl"
#include "backends/vulkan/shaders/rope.glsl"

struct RopeParams {
  uint64_t x;
  uint64_t cos_sin;
  uint64_t x_stride;
  uint head_dim;
  uint rotary_dim;
  uint x_is_bf16;
  uint reserved;
};
PARAMS(RopeParams);

void main() {
  const uint64_t first = gl_WorkGroupID.y * params.x_stride + uint64_t(gl_WorkGroupID.x) * params.head_dim;
  for (uint d = thread_index(); d < params.rotary_dim; d += kThreads) {
    head[d] = load_float(params.x, first + d, params.x_is_bf16);
  }
  barrier();
  const uint64_t cos_sin = params.cos_sin + uint64_t(gl_WorkGroupID.y) * params.rotary_dim * 4;
  for (uint d = thread_index(); d < params.rotary_dim; d += kThreads) {
    store_float(params.x, first + d, rotated(d, cos_sin, params.rotary_dim), params.x_is_bf16);
  }
}
