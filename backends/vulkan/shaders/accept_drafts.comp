// accept_drafts (core/ops/accept.h): an invocation per sequence.
#version 460
#include "backends/vulkan/shaders/device.glsl"

struct AcceptDraftsParams {
  uint64_t token_ids;
  uint64_t target_token_ids;
  uint64_t query_start_loc;
  uint64_t num_accepted;
  uint64_t num_sequences;
};
PARAMS(AcceptDraftsParams);

void main() {
  const uint b = gl_WorkGroupID.x * kThreads + thread_index();
  if (b >= params.num_sequences) return;
  const int first = load_i32(params.query_start_loc, b);
  const int num_drafts = load_i32(params.query_start_loc, b + 1) - first - 1;
  int accepted = 0;
  while (accepted < num_drafts && load_i32(params.token_ids, first + 1 + accepted) == load_i32(params.target_token_ids, first + accepted)) {
    ++accepted;
  }
  store_i32(params.num_accepted, b, accepted);
}
