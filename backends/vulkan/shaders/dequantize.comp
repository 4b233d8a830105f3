// The values of a weight of any format; a work group takes a row.
#version 460
#include "backends/vulkan/shaders/device.glsl"
#include "backends/vulkan/shaders/quantize.glsl"

struct DequantizeParams {
  uint64_t codes;
  uint64_t scale;
  uint64_t global_scale;
  uint64_t result;
  uint num_columns;
  uint block_rows;
  uint rows_per_global_scale;
  uint one_scale;
  uint scale_is_bf16;
  uint out_is_bf16;
  uint format;  // one byte, the rest is padding
};
PARAMS(DequantizeParams);

// As core/linear_weight.h numbers them.
const uint kF32 = 0;
const uint kBF16 = 1;
const uint kFp8Row = 2;
const uint kFp8Block = 3;

// Element (n, k) of a weight.
float dequantized(uint n, uint k) {
  const uint64_t index = uint64_t(n) * params.num_columns + k;
  const uint format = params.format & 0xffu;
  if (format == kF32) return load_f32(params.codes, index);
  if (format == kBF16) return bf16_to_float(load_u16(params.codes, index));
  if (format == kFp8Row) {
    return e4m3_to_float(load_u8(params.codes, index)) *
           load_float(params.scale, params.one_scale != 0 ? 0 : n, params.scale_is_bf16);
  }
  if (format == kFp8Block) {
    const uint columns = (params.num_columns + kBlockExtent - 1) / kBlockExtent;
    const uint64_t at = uint64_t(n / params.block_rows) * columns + k / kBlockExtent;
    return e4m3_to_float(load_u8(params.codes, index)) * load_float(params.scale, at, params.scale_is_bf16);
  }
  const uint code = load_u8(params.codes, index / 2) >> (k % 2 * 4);
  const float scale = e4m3_to_float(load_u8(params.scale, index / kGroup));
  return e2m1_to_float(code) * scale * load_f32(params.global_scale, n / params.rows_per_global_scale);
}

void main() {
  const uint n = gl_WorkGroupID.x;
  for (uint k = thread_index(); k < params.num_columns; k += kThreads) {
    store_float(params.result, uint64_t(n) * params.num_columns + k, dequantized(n, k), params.out_is_bf16);
  }
}
