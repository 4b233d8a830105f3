// embedding (core/ops/embedding.h): a row per work group.
#version 460
#include "backends/vulkan/shaders/device.glsl"

struct EmbeddingParams {
  uint64_t ids;
  uint64_t table;
  uint64_t out_;
  uint64_t out_stride;
  uint vocab_size;
  uint hidden_size;
  uint table_is_bf16;
  uint out_is_bf16;
};
PARAMS(EmbeddingParams);

void main() {
  const uint row = gl_WorkGroupID.x;
  const int id = load_i32(params.ids, row);
  const bool known = id >= 0 && uint(id) < params.vocab_size;
  const uint64_t source = known ? uint64_t(id) * params.hidden_size : 0ul;
  for (uint h = thread_index(); h < params.hidden_size; h += kThreads) {
    const float value = known ? load_float(params.table, source + h, params.table_is_bf16) : kNan;
    store_float(params.out_, row * params.out_stride + h, value, params.out_is_bf16);
  }
}
