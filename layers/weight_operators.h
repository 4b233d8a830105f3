// The operators that read weights, as layers call them, before their activations exist: what workspaces are sized by, and what a
// device is checked against before anything is allocated.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "backends/ops.h"
#include "layers/scratch.h"
#include "layers/weights.h"

namespace foretoken {

/// What of a pass decides how a linear layer runs.
struct PassKind {
  int64_t rows = 1;
  LinearPrecision precision = LinearPrecision::kExact;
  DType activation_dtype = DType::kF32;
};

/// The operators of such a pass with activations that have shapes only.
[[nodiscard]] Linear linear_over(const LinearWeight& w, const PassKind& pass);
[[nodiscard]] LinearGroup linear_group_over(std::initializer_list<LinearWeight> weights, const PassKind& pass);
[[nodiscard]] LinearArgmax linear_argmax_over(const LinearWeight& w, const PassKind& pass);
[[nodiscard]] LinearSiluMul linear_silu_mul_over(const MlpWeights& w, const PassKind& pass);
[[nodiscard]] MoeExpertsUp experts_up_over(const LayerDims& dims, const LinearWeight& gate_up, int64_t rows,
                                           LinearPrecision precision);
[[nodiscard]] MoeExpertsDown experts_down_over(const LayerDims& dims, const LinearWeight& down, int64_t rows,
                                               LinearPrecision precision);

/// "q_proj (bf16)".
[[nodiscard]] std::string describe_weight(std::string_view name, const LinearWeight& w);

/// Calls visit(names and formats of the weights, operator) for each operator of a layer that reads weights, as a pass over `rows`
/// rows at `precision` uses it.
template <class Visit>
void for_each_weight_operator(const LayerDims& dims, const DecoderLayerWeights& layer, int64_t rows, LinearPrecision precision,
                              const Visit& visit) {
  const PassKind pass{.rows = rows, .precision = precision, .activation_dtype = dims.activation_dtype};
  const PassKind exact{.rows = rows, .precision = LinearPrecision::kExact, .activation_dtype = dims.activation_dtype};
  const auto group = [&](const PassKind& kind, std::initializer_list<LinearWeight> weights,
                         std::initializer_list<std::string_view> names) {
    std::string text;
    for (size_t i = 0; i < weights.size(); ++i) {
      text += (i == 0 ? "" : ", ") + describe_weight(names.begin()[i], weights.begin()[i]);
    }
    visit(text, linear_group_over(weights, kind));
  };
  const auto linear = [&](std::string_view name, const LinearWeight& w) {
    visit(describe_weight(name, w), linear_over(w, pass));
  };
  const auto feed_forward = [&](const MlpWeights& w) {
    visit(describe_weight("gate_proj", w.gate_proj), linear_silu_mul_over(w, pass));
    linear("down_proj", w.down_proj);
  };
  if (const auto& w = layer.self_attn) {
    group(pass, {w->q_proj, w->k_proj, w->v_proj}, {"q_proj", "k_proj", "v_proj"});
    group(pass, {w->k_proj, w->v_proj}, {"k_proj", "v_proj"});
    linear("o_proj", w->o_proj);
  }
  if (const auto& w = layer.linear_attn) {
    group(pass, {w->in_proj_qkv, w->in_proj_z, w->in_proj_b, w->in_proj_a},
          {"in_proj_qkv", "in_proj_z", "in_proj_b", "in_proj_a"});
    linear("out_proj", w->out_proj);
  }
  if (layer.mlp) feed_forward(*layer.mlp);
  if (const auto& w = layer.moe) {
    group(exact, {w->gate, w->shared_expert_gate}, {"gate", "shared_expert_gate"});
    feed_forward(w->shared_expert);
    visit(describe_weight("experts.gate_up_proj", w->gate_up_proj), experts_up_over(dims, w->gate_up_proj, rows, precision));
    visit(describe_weight("experts.down_proj", w->down_proj), experts_down_over(dims, w->down_proj, rows, precision));
  }
}

/// Throws Unsupported unless the device runs what a decoder layer asks of it in exact passes of each of `rows` rows, and in
/// prefill passes at either precision. The message begins with `where` and the weight ("target layer 3: q_proj (nvfp4)").
void require_layer(const GpuBackend& backend, std::string_view where, const LayerDims& dims, const DecoderLayerWeights& layer,
                   std::initializer_list<int64_t> rows);

/// The same for one linear layer, with inputs of `activation_dtype`; `where` names it too ("mtp head: fc").
void require_linear(const GpuBackend& backend, std::string_view where, const LinearWeight& w, DType activation_dtype,
                    std::initializer_list<int64_t> rows);

/// Whether LinearArgmax takes each of `rows` rows of this LM head; the device's reason otherwise.
[[nodiscard]] Availability fused_lm_head(const OpTable& table, const LinearWeight& lm_head, DType activation_dtype,
                                         std::initializer_list<int64_t> rows);

/// Throws Unsupported unless the device can pick from this LM head: fused, or by Linear and Argmax.
void require_lm_head(const GpuBackend& backend, std::string_view where, const LinearWeight& lm_head, DType activation_dtype,
                     std::initializer_list<int64_t> rows);

/// Scratch bytes that a linear layer needs in a pass.
[[nodiscard]] size_t linear_workspace_bytes(const OpTable& table, const LinearWeight& w, const PassKind& pass);

/// Scratch bytes that any linear layer of `layer`, or its delta rule, needs in a pass of `rows` rows at kBF16.
[[nodiscard]] size_t prefill_workspace_bytes(const OpTable& table, const LayerDims& dims, const DecoderLayerWeights& layer,
                                             int64_t rows);

/// Scratch bytes of a fused LM head over `rows` rows.
[[nodiscard]] size_t lm_head_workspace_bytes(const OpTable& table, const LinearWeight& lm_head, DType activation_dtype,
                                             int64_t rows);

}  // namespace foretoken
