// Many rows: grid (row group, key head, sequence), every split in turn, merged in the order of gated_attention_combine.
#version 460
#include "backends/vulkan/shaders/device.glsl"
#include "backends/vulkan/shaders/attention_split.glsl"

// The queries of a tile, whose splits are `size` long, up to position `last_length`.
void attend_tile(QueryTile tile, uint size, uint last_length) {
  Merged merged[kQueries];
  [[unroll]] for (uint i = 0; i < kQueries; ++i) merged[i] = Merged(0.0, kLowest, 0.0);
  load_queries(tile);
  for (uint begin = 0; begin < last_length; begin += size) {
    float mixed[kQueries];
    attend_split(tile, begin, min(begin + size, last_length), mixed);
    [[unroll]] for (uint i = 0; i < kQueries; ++i) {
      if (begin < length_of(tile, i)) add_split(merged[i], Merged(mixed[i], maxima[i], sums[i]));
    }
  }
  [[unroll]] for (uint i = 0; i < kQueries; ++i) {
    if (i < tile.count && thread_index() < params.head_dim) {
      const QueryIndex at = query_index(tile.key_head, tile.first + i);
      store_gated(tile.rows.first_row + at.row, at.head, thread_index(), merged[i]);
    }
  }
}

void main() {
  const RowGroup rows = row_group(gl_WorkGroupID.z, gl_WorkGroupID.x * kAttentionRows);
  if (rows.num_rows == 0) return;
  const uint heads = params.num_query_heads / params.num_key_heads;
  const uint largest = split_size(rows.first_length + rows.num_rows - 1);
  for (uint size = split_size(rows.first_length); size <= largest; size *= 2) {
    const RowRange range = rows_of_size(rows, size);
    if (range.count == 0) continue;
    const uint last_length = rows.first_length + range.first + range.count - 1;
    const uint last_query = (range.first + range.count) * heads;
    for (uint first = range.first * heads; first < last_query; first += kQueries) {
      attend_tile(QueryTile(rows, gl_WorkGroupID.y, first, min(kQueries, last_query - first)), size, last_length);
    }
  }
}
