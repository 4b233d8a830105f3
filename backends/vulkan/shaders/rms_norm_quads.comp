// rms_norm of rows of whole fours, each at a multiple of four elements, that the threads of a group can keep.
#version 460
#include "backends/vulkan/shaders/device.glsl"
#include "backends/vulkan/shaders/norm.glsl"

PARAMS(RmsNormParams);

const uint kNormQuads = 3;  // fours of a row that a thread keeps

void main() {
  const uint quads = params.hidden_size / 4;
  const uint64_t row = gl_WorkGroupID.x;
  vec4 held[kNormQuads];
  float sum = 0.0;
  [[unroll]] for (uint i = 0; i < kNormQuads; ++i) {
    const uint q = thread_index() + i * kThreads;
    held[i] = vec4(0.0);
    if (q < quads) {
      held[i] = load_four(params.x, row * params.x_stride + q * 4, params.x_is_bf16);
      if (params.residual != 0) {
        const uint64_t at = row * params.residual_stride + q * 4;
        held[i] += load_four(params.residual, at, params.residual_is_bf16);
        store_four(params.residual, at, held[i], params.residual_is_bf16);
      }
    }
    const vec4 v = held[i];
    precise const float yy = v.y * v.y;
    precise const float ww = v.w * v.w;
    precise const float squares = fma(v.x, v.x, yy) + fma(v.z, v.z, ww);
    sum += squares;
  }
  const float factor = norm_factor(group_sum(sum), params.hidden_size, params.eps);
  [[unroll]] for (uint i = 0; i < kNormQuads; ++i) {
    const uint q = thread_index() + i * kThreads;
    if (q >= quads) continue;
    precise const vec4 four = held[i] * factor * (1.0 + load_four(params.weight, q * 4, 0));
    store_four(params.result, row * params.out_stride + q * 4, four, params.out_is_bf16);
  }
}
