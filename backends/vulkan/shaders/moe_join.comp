// The join of moe_experts_down (core/ops/moe.h).
#version 460
#include "backends/vulkan/shaders/device.glsl"
#include "backends/vulkan/shaders/moe_params.glsl"

PARAMS(MoeJoinParams);

void main() {
  const MoeJoinParams p = params;
  const uint row = gl_WorkGroupID.y;
  const uint h = gl_WorkGroupID.x * kThreads + thread_index();
  if (h >= p.hidden_size) return;
  const uint64_t first = uint64_t(row) * p.top_k;
  precise float sum = 0.0;
  for (uint s = 0; s < p.top_k; ++s) {
    sum = fma(load_f32(p.topk_weights, first + s), load_f32(p.products, (first + s) * p.hidden_size + h), sum);
  }
  if (p.shared_rows != 0) {
    const float gate = sigmoid(load_f32(p.shared_gate, row * p.shared_gate_stride));
    sum = fma(gate, load_float(p.shared_rows, row * p.shared_stride + h, p.shared_is_bf16), sum);
  }
  store_float(p.out_, row * p.out_stride + h, sum, p.out_is_bf16);
}
