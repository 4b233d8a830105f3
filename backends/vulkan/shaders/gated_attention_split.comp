// Partial results of few rows: grid (split, key head, sequence), rows first_row .. first_row + kAttentionRows of the call.
#version 460
#include "backends/vulkan/shaders/device.glsl"
#include "backends/vulkan/shaders/attention_split.glsl"

void store_split(QueryTile tile, uint split, float mixed[kQueries]) {
  const uint d = thread_index();
  [[unroll]] for (uint i = 0; i < kQueries; ++i) {
    if (i < tile.count) {
      const QueryIndex at = query_index(tile.key_head, tile.first + i);
      const uint row = tile.rows.first_row - params.first_row + at.row;
      const uint64_t part = (uint64_t(row) * params.num_query_heads + at.head) * params.num_splits + split;
      if (d < params.head_dim) store_f32(params.partial, part * params.head_dim + d, mixed[i]);
      if (d == 0) {
        store_f32(params.partial_max, part * 2, maxima[i]);
        store_f32(params.partial_max, part * 2 + 1, sums[i]);
      }
    }
  }
}

void main() {
  const uint split = gl_WorkGroupID.x;
  const uint key_head = gl_WorkGroupID.y;
  const RowGroup rows = row_group(gl_WorkGroupID.z, params.first_row);
  if (rows.num_rows == 0) return;
  const uint heads = params.num_query_heads / params.num_key_heads;
  const uint largest = split_size(rows.first_length + rows.num_rows - 1);
  for (uint size = split_size(rows.first_length); size <= largest; size *= 2) {
    const RowRange range = rows_of_size(rows, size);
    const uint begin = split * size;
    const uint last_length = rows.first_length + range.first + range.count - 1;
    if (range.count == 0 || begin >= last_length) continue;
    const uint last_query = (range.first + range.count) * heads;
    for (uint first = range.first * heads; first < last_query; first += kQueries) {
      const QueryTile tile = QueryTile(rows, key_head, first, min(kQueries, last_query - first));
      float mixed[kQueries];
      load_queries(tile);
      attend_split(tile, begin, min(begin + size, last_length), mixed);
      store_split(tile, split, mixed);
    }
  }
}
