// E4M3 codes with a scale per block of 128 by 128. Grid: (column tile, row tile).
#version 460
#include "backends/vulkan/shaders/device.glsl"
#include "backends/vulkan/shaders/quantize.glsl"

struct QuantizeFp8BlockParams {
  QuantizeSource source;
  uint64_t codes;
  uint64_t scale;
  uint64_t scale_is_bf16;
};
PARAMS(QuantizeFp8BlockParams);

const uint kRowStep = kThreads / kBlockExtent;
const float kSmallestBlockScale = 1e-12;

void main() {
  const uint num_columns = params.source.num_columns;
  const uint column = gl_WorkGroupID.x * kBlockExtent + thread_index() % kBlockExtent;
  const uint64_t first_row = uint64_t(gl_WorkGroupID.y) * kBlockExtent + thread_index() / kBlockExtent;
  const uint64_t last_row = min(uint64_t(gl_WorkGroupID.y + 1) * kBlockExtent, params.source.num_rows);
  const bool exists = column < num_columns;
  uint largest = 0;
  for (uint64_t row = first_row; row < last_row && exists; row += kRowStep) {
    largest = max(largest, magnitude_bits(source_value(params.source, row, column)));
  }
  const float quotient = exact_quotient(uintBitsToFloat(group_largest(largest)), kE4M3Max);
  const float scale = quotient < kSmallestBlockScale ? kSmallestBlockScale : quotient;
  for (uint64_t row = first_row; row < last_row && exists; row += kRowStep) {
    const float value = exact_quotient(source_value(params.source, row, column), scale);
    store_u8(params.codes, row * num_columns + column, float_to_e4m3(value));
  }
  if (thread_index() == 0) {
    const uint64_t num_tiles = (num_columns + kBlockExtent - 1) / kBlockExtent;
    store_float(params.scale, gl_WorkGroupID.y * num_tiles + gl_WorkGroupID.x, scale, uint(params.scale_is_bf16));
  }
}
