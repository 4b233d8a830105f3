// argmax (core/ops/argmax.h): a row per work group.
#version 460
#include "backends/vulkan/shaders/device.glsl"
#include "backends/vulkan/shaders/row.glsl"

struct ArgmaxParams {
  uint64_t logits;
  uint64_t token_ids;
  uint64_t logits_stride;
  uint64_t vocab_size;
};
PARAMS(ArgmaxParams);

void main() {
  const uint row = gl_WorkGroupID.x;
  const int token = row_argmax(params.logits + row * params.logits_stride * 4, uint(params.vocab_size));
  if (thread_index() == 0) store_i32(params.token_ids, row, token);
}
