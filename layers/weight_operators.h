// The operators that read weights, as layers call them, before their activations exist: what workspaces are sized by, and what a
// device is checked against before anything is allocated.
#pragma once

#include <initializer_list>
#include <string_view>

#include "backends/ops.h"
#include "layers/scratch.h"
#include "layers/weights.h"

namespace foretoken {

/// The operators over `rows` rows with activations that have shapes only.
[[nodiscard]] Linear linear_over(const LinearWeight& w, int64_t rows, LinearPrecision precision);
[[nodiscard]] LinearArgmax linear_argmax_over(const LinearWeight& w, int64_t rows);
[[nodiscard]] LinearSiluMul linear_silu_mul_over(const MlpWeights& w, int64_t rows, LinearPrecision precision);
[[nodiscard]] MoeExpertsUp experts_up_over(const LayerDims& dims, const LinearWeight& gate_up, int64_t rows);
[[nodiscard]] MoeExpertsDown experts_down_over(const LayerDims& dims, const LinearWeight& down, int64_t rows);

/// Calls visit(name of the weight, the weight, operator) for each weight of a layer, as a pass over `rows` rows at `precision`
/// uses it.
template <class Visit>
void for_each_weight_operator(const LayerDims& dims, const DecoderLayerWeights& layer, int64_t rows, LinearPrecision precision,
                              const Visit& visit) {
  const auto linear = [&](std::string_view name, const LinearWeight& w) { visit(name, w, linear_over(w, rows, precision)); };
  const auto exact = [&](std::string_view name, const LinearWeight& w) {
    visit(name, w, linear_over(w, rows, LinearPrecision::kExact));
  };
  const auto feed_forward = [&](const MlpWeights& w) {
    visit("gate_proj", w.gate_proj, linear_silu_mul_over(w, rows, precision));
    linear("down_proj", w.down_proj);
  };
  if (layer.self_attn) {
    linear("q_proj", layer.self_attn->q_proj);
    linear("k_proj", layer.self_attn->k_proj);
    linear("v_proj", layer.self_attn->v_proj);
    linear("o_proj", layer.self_attn->o_proj);
  }
  if (layer.linear_attn) {
    linear("in_proj_qkv", layer.linear_attn->in_proj_qkv);
    linear("in_proj_z", layer.linear_attn->in_proj_z);
    linear("in_proj_b", layer.linear_attn->in_proj_b);
    linear("in_proj_a", layer.linear_attn->in_proj_a);
    linear("out_proj", layer.linear_attn->out_proj);
  }
  if (layer.mlp) feed_forward(*layer.mlp);
  if (layer.moe) {
    exact("gate", layer.moe->gate);
    exact("shared_expert_gate", layer.moe->shared_expert_gate);
    feed_forward(layer.moe->shared_expert);
    visit("experts.gate_up_proj", layer.moe->gate_up_proj, experts_up_over(dims, layer.moe->gate_up_proj, rows));
    visit("experts.down_proj", layer.moe->down_proj, experts_down_over(dims, layer.moe->down_proj, rows));
  }
}

/// Throws Unsupported unless the device runs what a decoder layer asks of it in exact passes of each of `rows` rows, and in
/// prefill passes at either precision. The message begins with `where` and the weight ("target layer 3: q_proj (nvfp4)").
void require_layer(const GpuBackend& backend, std::string_view where, const LayerDims& dims, const DecoderLayerWeights& layer,
                   std::initializer_list<int64_t> rows);

/// The same for one linear layer.
void require_linear(const GpuBackend& backend, std::string_view where, std::string_view name, const LinearWeight& w,
                    std::initializer_list<int64_t> rows);

/// Whether LinearArgmax takes each of `rows` rows of this LM head; the device's reason otherwise.
[[nodiscard]] Availability fused_lm_head(const OpTable& table, const LinearWeight& lm_head, std::initializer_list<int64_t> rows);

/// Throws Unsupported unless the device can pick from this LM head: fused, or by Linear and Argmax.
void require_lm_head(const GpuBackend& backend, std::string_view where, const LinearWeight& lm_head,
                     std::initializer_list<int64_t> rows);

/// Scratch bytes that a linear layer needs in a pass of `rows` rows at kBF16.
[[nodiscard]] size_t linear_workspace_bytes(const OpTable& table, const LinearWeight& w, int64_t rows);

/// Scratch bytes that any linear layer of `layer` needs in a pass of `rows` rows at kBF16.
[[nodiscard]] size_t prefill_workspace_bytes(const OpTable& table, const LayerDims& dims, const DecoderLayerWeights& layer,
                                             int64_t rows);

/// Scratch bytes of a fused LM head over `rows` rows.
[[nodiscard]] size_t lm_head_workspace_bytes(const OpTable& table, const LinearWeight& lm_head, int64_t rows);

}  // namespace foretoken
