#version 460
#include "backends/vulkan/shaders/device.glsl"
#include "backends/vulkan/shaders/row.glsl"
struct SampleTokensParams {
  uint64_t logits;
  uint64_t row_slots;
  uint64_t positions;
  uint64_t reals;
  uint64_t seeds;
  uint64_t token_ids;
  uint64_t weight_sums;
  uint64_t logits_stride;
  uint vocab_size;
  uint num_slots;
};
PARAMS(SampleTokensParams);

uint64_t lane_amounts(uint64_t x, uint begin, uint end, uint lane) { return lane_weights(x, begin, end, lane); }

void main() {
  const uint row = gl_WorkGroupID.x;
  const uint64_t x = params.logits + row * params.logits_stride * 4;
  const int slot = sampled_slot(load_i32(params.row_slots, row), params.reals, params.num_slots);
  uint64_t sum = 0;
  int token = 0;
  if (slot < 0) {
    token = row_argmax(x, params.vocab_size);
  } else {
    for (uint v = thread_index(); v < params.vocab_size; v += kThreads) sum += sampling_weight(logit_of(x, v));
    sum = row_sum(sum);
    const uint64_t bits = random_bits(load_bits(params.seeds, slot), load_i32(params.positions, row), kForToken, 0);
    if (sum != 0) token = int(draw_index(x, params.vocab_size, multiply_high(bits, sum)));
  }
  if (thread_index() != 0) return;
  store_i32(params.token_ids, row, token);
  store_bits(params.weight_sums, row, sum);
}
