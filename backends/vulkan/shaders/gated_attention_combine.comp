// Merges the splits of few rows: grid (query head, row).
#version 460
#include "backends/vulkan/shaders/device.glsl"
#include "backends/vulkan/shaders/attention.glsl"

// Positions that a row attends to; 0 for padding.
uint length_of_row(int row) {
  for (uint b = 0; b < params.num_sequences; ++b) {
    const int end = load_i32(params.query_start_loc, b + 1);
    if (row < load_i32(params.query_start_loc, b) || row >= end) continue;
    const int length = load_i32(params.seq_lens, b) - end + row + 1;
    return length <= 0 ? 0 : min(uint(length), params.max_seq_len);
  }
  return 0;
}

void main() {
  const uint head = gl_WorkGroupID.x;
  const uint row = params.first_row + gl_WorkGroupID.y;
  const uint d = thread_index();
  const uint length = length_of_row(int(row));
  if (length == 0 || d >= params.head_dim) return;
  const uint count = (length - 1) / split_size(length) + 1;
  const uint64_t first = (uint64_t(gl_WorkGroupID.y) * params.num_query_heads + head) * params.num_splits;
  Merged merged = Merged(0.0, kLowest, 0.0);
  for (uint split = 0; split < count; ++split) {
    const uint64_t part = first + split;
    add_split(merged, Merged(load_f32(params.partial, part * params.head_dim + d), load_f32(params.partial_max, part * 2),
                             load_f32(params.partial_max, part * 2 + 1)));
  }
  store_gated(row, head, d, merged);
}
