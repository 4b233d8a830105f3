// The normed embedding and the normed hidden state of a row, side by side. Grid y: which half.
#version 460
#include "backends/vulkan/shaders/device.glsl"
#include "backends/vulkan/shaders/norm.glsl"

struct MtpInputParams {
  uint64_t ids;
  uint64_t table;
  uint64_t hidden;
  uint64_t hidden_rows;
  uint64_t embedding_norm;
  uint64_t hidden_norm;
  uint64_t result;
  uint64_t hidden_stride;
  uint64_t out_stride;
  uint vocab_size;
  uint num_hidden;
  uint hidden_size;
  float eps;
  uint table_is_bf16;
  uint hidden_is_bf16;
  uint out_is_bf16;
  uint reserved;
};
PARAMS(MtpInputParams);

void main() {
  const bool is_hidden = gl_WorkGroupID.y == 1;
  const uint64_t half_bytes = uint64_t(params.hidden_size) * (params.out_is_bf16 != 0 ? 2 : 4);
  RmsNormParams p;
  p.x = is_hidden ? params.hidden : params.table;
  p.residual = 0;
  p.weight = is_hidden ? params.hidden_norm : params.embedding_norm;
  p.result = params.result + (is_hidden ? half_bytes : uint64_t(0));
  p.x_stride = is_hidden ? params.hidden_stride : uint64_t(params.hidden_size);
  p.residual_stride = 0;
  p.out_stride = params.out_stride;
  p.hidden_size = params.hidden_size;
  p.eps = params.eps;
  p.x_is_bf16 = is_hidden ? params.hidden_is_bf16 : params.table_is_bf16;
  p.residual_is_bf16 = 0;
  p.out_is_bf16 = params.out_is_bf16;
  p.reserved = 0;
  const uint64_t indices = is_hidden ? params.hidden_rows : params.ids;
  uint row = gl_WorkGroupID.x;
  if (indices != 0) row = load_u32(indices, gl_WorkGroupID.x);
  norm_row(p, row, row < (is_hidden ? params.num_hidden : params.vocab_size));  // as unsigned, a negative one is too large
}
