// The end of linear_argmax: what has been seen of a row becomes its token and its log-probability.
#ifndef FORETOKEN_LINEAR_COMBINE_GLSL
#define FORETOKEN_LINEAR_COMBINE_GLSL

#include "backends/vulkan/shaders/linear_params.glsl"
#include "backends/vulkan/shaders/row_best.glsl"

// Puts together what the invocations of work group t have seen of row t, and stores its results.
void finish_row(RowBest row, uint64_t token_map, uint64_t token_ids, uint64_t logprobs) {
  row = joined_over(row, kThreads);
  if (thread_index() != 0) return;
  const uint index = row.best.index < 0 ? 0 : uint(row.best.index);
  store_i32(token_ids, gl_WorkGroupID.x, token_map == 0 ? int(index) : load_i32(token_map, index));
  if (logprobs != 0) store_f32(logprobs, gl_WorkGroupID.x, row.best.value - (row.maximum + log(row.sum)));
}

#endif
