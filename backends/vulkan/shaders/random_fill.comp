// random_fill (core/ops/random_fill.h): kRandomElements per work group.
#version 460
#include "backends/vulkan/shaders/device.glsl"

struct RandomFillParams {
  uint64_t out_;
  uint64_t num_elements;
  uint64_t seed;
  uint64_t tensor_id;
  float scale;
  float offset;
  uint is_bf16;
  uint reserved;
};
PARAMS(RandomFillParams);

const uint kRandomElements = 4096;

// random_weight_integer.
int random_integer(uint64_t index) {
  uint64_t z = params.seed * 0x9e3779b97f4a7c15ul + params.tensor_id * 0xd1b54a32d192ed03ul + index;
  for (int round = 0; round < 2; ++round) {
    z += 0x9e3779b97f4a7c15ul;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ul;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebul;
    z ^= z >> 31;
  }
  return int(uint((z >> 32) * 255 >> 32)) - 127;
}

void main() {
  const uint64_t first = uint64_t(gl_WorkGroupID.x) * kRandomElements;
  const uint64_t end = min(first + kRandomElements, params.num_elements);
  for (uint64_t i = first + thread_index(); i < end; i += kThreads) {
    precise const float scaled = float(random_integer(i)) * params.scale;
    precise const float value = scaled + params.offset;
    store_float(params.out_, i, value, params.is_bf16);
  }
}
