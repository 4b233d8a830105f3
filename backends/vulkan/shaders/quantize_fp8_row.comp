// E4M3 codes with a scale per row; a work group takes a row.
#version 460
#include "backends/vulkan/shaders/device.glsl"
#include "backends/vulkan/shaders/quantize.glsl"

struct QuantizeFp8RowParams {
  QuantizeSource source;
  uint64_t codes;
  uint64_t scale;
};
PARAMS(QuantizeFp8RowParams);

void main() {
  const uint row = gl_WorkGroupID.x;
  const uint num_columns = params.source.num_columns;
  uint largest = 0;
  for (uint k = thread_index(); k < num_columns; k += kThreads) {
    largest = max(largest, magnitude_bits(source_value(params.source, row, k)));
  }
  const float scale = divided_or_one(uintBitsToFloat(group_largest(largest)), kE4M3Max);
  for (uint k = thread_index(); k < num_columns; k += kThreads) {
    const float value = exact_quotient(source_value(params.source, row, k), scale);
    store_u8(params.codes, uint64_t(row) * num_columns + k, float_to_e4m3(value));
  }
  if (thread_index() == 0) store_f32(params.scale, row, scale);
}
