// Sums of the logical warps of a work group over their lanes.
#ifndef FORETOKEN_TILE_SUMS_GLSL
#define FORETOKEN_TILE_SUMS_GLSL

#include "backends/vulkan/shaders/linear_sums.glsl"

// Lanes that exchange values without memory, a power of two, and what is left of a logical warp.
const uint kCluster = kSubgroup < kLanes ? kSubgroup : kLanes;
const uint kWarpParts = kLanes / kCluster;

// TILE_BUFFERS: tiles whose sums are kept at a time.
shared float tile_parts[TILE_BUFFERS][kWarps * kWarpParts][kTileValues];

// Half of the lanes keep the first half of `width` values, the others the second half; of one value all lanes keep the sum.
void sum_step(inout float values[kTileValues], const uint width, uint mask) {
  const bool upper = (lane_index() & mask) != 0;
  if (width < 2) {
    values[0] += subgroupShuffleXor(values[0], mask);
  } else {
    [[unroll]] for (uint i = 0; i < kTileValues / 2; ++i) {
      if (i < width / 2) {
        const float kept = upper ? values[i + width / 2] : values[i];
        const float given = upper ? values[i] : values[i + width / 2];
        values[i] = kept + subgroupShuffleXor(given, mask);
      }
    }
  }
}

// Sums over the lanes of a cluster: then lane l has those of the values from l * kTileValues / kCluster on, in the first places
// of `values`. Every sum is the same tree of additions whatever kTileValues is.
void sum_in_cluster(inout float values[kTileValues]) {
  [[unroll]] for (uint s = 0; s < 5; ++s) {
    const uint mask = kCluster >> (s + 1);
    if (mask > 0) sum_step(values, kTileValues >> s, mask);
  }
}

// Every logical warp stores its sums; all invocations of the work group call this.
void store_sums(uint buffer_index, inout float values[kTileValues]) {
  sum_in_cluster(values);
  const uint cluster = thread_index() / kCluster;
  const uint lane = thread_index() % kCluster;
  if (kTileValues >= kCluster) {
    const uint kept = kTileValues / kCluster;
    [[unroll]] for (uint i = 0; i < kTileValues; ++i) {
      if (i < kept) tile_parts[buffer_index][cluster][lane * kept + i] = values[i];
    }
  } else {
    const uint share = kCluster / kTileValues;
    if (lane % share == 0) tile_parts[buffer_index][cluster][lane / share] = values[0];
  }
  barrier();
}

// Value i of tile `group`: the sum of its parts in order.
float tile_value(uint buffer_index, uint group, uint i, uint num_slices) {
  const uint count = num_slices * kWarpParts;
  float sum = tile_parts[buffer_index][group * count][i];
  for (uint part = 1; part < count; ++part) sum += tile_parts[buffer_index][group * count + part][i];
  return sum;
}

#endif
