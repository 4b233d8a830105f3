// count_tokens (core/ops/process_logits.h): an invocation per token.
#version 460
#include "backends/vulkan/shaders/device.glsl"

struct CountTokensParams {
  uint64_t slots;
  uint64_t token_ids;
  uint64_t counts;
  uint num_tokens;
  uint num_slots;
  uint vocab_size;
  uint reserved;
};
PARAMS(CountTokensParams);

void main() {
  const uint i = gl_WorkGroupID.x * kThreads + thread_index();
  if (i >= params.num_tokens) return;
  const int slot = load_i32(params.slots, i);
  const int id = load_i32(params.token_ids, i);
  if (slot < 0 || uint(slot) >= params.num_slots || id < 0 || uint(id) >= params.vocab_size) return;
  atomicAdd(U32Ref(params.counts + (uint64_t(slot) * params.vocab_size + uint(id)) * 4).value, 1u);
}
