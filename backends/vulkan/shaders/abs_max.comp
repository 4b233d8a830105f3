// The largest magnitude of the rows of a work group; a logical warp takes a row.
#version 460
#include "backends/vulkan/shaders/device.glsl"
#include "backends/vulkan/shaders/quantize.glsl"

struct AbsMaxParams {
  QuantizeSource source;
  uint64_t partial;
};
PARAMS(AbsMaxParams);

const uint kBatch = 4;  // vectors under way at once, so that memory bounds the kernel

// The largest magnitude in a vector of words, as bits.
uint vector_largest(uvec4 words, uint is_bf16) {
  const uvec4 high = words & (is_bf16 != 0 ? 0x7fff0000u : 0x7fffffffu);
  const uvec4 low = is_bf16 != 0 ? words << 16 & 0x7fff0000u : uvec4(0);
  const uvec4 both = max(high, low);
  return max(max(both.x, both.y), max(both.z, both.w));
}

// A lane's share of one row.
uint lane_largest(QuantizeSource source, uint64_t row) {
  const uint bytes = source.is_bf16 != 0 ? 2 : 4;
  const uint per_vector = 16 / bytes;
  const uint64_t address = source.x + row * source.stride * bytes;
  const uint num_vectors = (uint(address) & 15u) == 0 ? source.num_columns / per_vector : 0;
  uint largest = 0;
  for (uint first = lane_index(); first < num_vectors; first += kBatch * kLanes) {
    uvec4 vectors[kBatch];
    [[unroll]] for (uint u = 0; u < kBatch; ++u) {
      const uint v = first + u * kLanes;
      vectors[u] = uvec4(0);
      if (v < num_vectors) vectors[u] = U32x4Ref(address + uint64_t(v) * 16).value;
    }
    [[unroll]] for (uint u = 0; u < kBatch; ++u) largest = max(largest, vector_largest(vectors[u], source.is_bf16));
  }
  for (uint k = num_vectors * per_vector + lane_index(); k < source.num_columns; k += kLanes) {
    largest = max(largest, magnitude_bits(source_value(source, row, k)));
  }
  return largest;
}

void main() {
  uint largest = 0;
  // The host makes no more work groups than one dispatch holds.
  for (uint64_t row = gl_WorkGroupID.x * kWarps + warp_index(); row < params.source.num_rows; row += gl_NumWorkGroups.x * kWarps) {
    largest = max(largest, lane_largest(params.source, row));
  }
  largest = group_largest(largest);
  if (thread_index() == 0) store_u32(params.partial, gl_WorkGroupID.x, largest);
}
