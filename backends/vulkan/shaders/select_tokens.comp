// select_tokens (core/ops/accept.h): an invocation per token.
#version 460
#include "backends/vulkan/shaders/device.glsl"

struct SelectTokensParams {
  uint64_t host_token_ids;
  uint64_t source;
  uint64_t source_rows;
  uint64_t token_ids;
  uint num_tokens;
  uint num_sources;
};
PARAMS(SelectTokensParams);

void main() {
  const uint t = gl_WorkGroupID.x * kThreads + thread_index();
  if (t >= params.num_tokens) return;
  const int host_id = load_i32(params.host_token_ids, t);
  const int row = load_i32(params.source_rows, t);
  int device_id = -1;
  if (row >= 0 && uint(row) < params.num_sources) device_id = load_i32(params.source, row);
  store_i32(params.token_ids, t, host_id >= 0 ? host_id : device_id);
}
