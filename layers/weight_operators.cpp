#include "layers/weight_operators.h"

#include <algorithm>
#include <array>
#include <string>
#include <type_traits>

namespace foretoken {
namespace {

constexpr std::array kPrecisions{LinearPrecision::kExact, LinearPrecision::kBF16};

Tensor f32(const Shape& shape) { return Tensor::shape_only(DType::kF32, shape); }
Tensor i32(const Shape& shape) { return Tensor::shape_only(DType::kI32, shape); }

template <class Op>
void require_weight(const GpuBackend& backend, std::string_view where, std::string_view name, const LinearWeight& w,
                    const Op& op) {
  const std::string weight = std::string(where) + ": " + std::string(name) + " (" + std::string(to_string(w.format)) + ")";
  ops::require(backend, weight, op);
}

}  // namespace

Linear linear_over(const LinearWeight& w, int64_t rows, LinearPrecision precision) {
  return {
      .x = f32({rows, w.in_features()}), .w = w, .out = f32({rows, w.out_features()}), .workspace = {}, .precision = precision};
}

LinearArgmax linear_argmax_over(const LinearWeight& w, int64_t rows) {
  return {.x = f32({rows, w.in_features()}), .w = w, .token_ids = i32({rows}), .logprobs = {}, .workspace = {}};
}

LinearSiluMul linear_silu_mul_over(const MlpWeights& w, int64_t rows, LinearPrecision precision) {
  return {.x = f32({rows, w.gate_proj.in_features()}),
          .gate = w.gate_proj,
          .up = w.up_proj,
          .out = f32({rows, w.gate_proj.out_features()}),
          .workspace = {},
          .precision = precision};
}

MoeExpertsUp experts_up_over(const LayerDims& dims, const LinearWeight& gate_up, int64_t rows) {
  return {.x = f32({rows, dims.hidden_size}),
          .gate_up = gate_up,
          .expert_offsets = i32({dims.num_experts + 1}),
          .expert_pairs = i32({rows * dims.num_experts_per_tok}),
          .out = f32({rows, dims.num_experts_per_tok, dims.moe_intermediate_size})};
}

MoeExpertsDown experts_down_over(const LayerDims& dims, const LinearWeight& down, int64_t rows) {
  const int64_t slots = dims.num_experts_per_tok;
  return {.act = f32({rows, slots, dims.moe_intermediate_size}),
          .down = down,
          .topk_ids = i32({rows, slots}),
          .topk_weights = f32({rows, slots}),
          .expert_offsets = i32({dims.num_experts + 1}),
          .expert_pairs = i32({rows * slots}),
          .shared = f32({rows, dims.hidden_size}),
          .shared_gate = f32({rows, 1}),
          .out = f32({rows, dims.hidden_size}),
          .workspace = {}};
}

void require_layer(const GpuBackend& backend, std::string_view where, const LayerDims& dims, const DecoderLayerWeights& layer,
                   std::initializer_list<int64_t> rows) {
  ops::require_any<RmsNorm, AddRmsNorm>(backend, where);
  if (layer.self_attn) ops::require_any<QkNormRopeCache, GatedAttention>(backend, where);
  if (layer.linear_attn) ops::require_any<CausalConv1dSilu, GatedDeltaRule>(backend, where);
  if (layer.moe) ops::require_any<MoeRoute>(backend, where);
  for (const int64_t count : rows) {
    for (const LinearPrecision precision : kPrecisions) {
      for_each_weight_operator(dims, layer, count, precision, [&](std::string_view name, const LinearWeight& w, const auto& op) {
        require_weight(backend, where, name, w, op);
      });
    }
  }
}

void require_linear(const GpuBackend& backend, std::string_view where, std::string_view name, const LinearWeight& w,
                    std::initializer_list<int64_t> rows) {
  for (const int64_t count : rows) {
    for (const LinearPrecision precision : kPrecisions) require_weight(backend, where, name, w, linear_over(w, count, precision));
  }
}

Availability fused_lm_head(const OpTable& table, const LinearWeight& lm_head, std::initializer_list<int64_t> rows) {
  for (const int64_t count : rows) {
    const LinearArgmax op = linear_argmax_over(lm_head, count);
    if (Availability fused = table.availability(LinearArgmax::schema().name(), &op); !fused) return fused;
  }
  return Availability::yes();
}

void require_lm_head(const GpuBackend& backend, std::string_view where, const LinearWeight& lm_head,
                     std::initializer_list<int64_t> rows) {
  if (fused_lm_head(backend.ops(), lm_head, rows)) return;
  ops::require_any<Argmax>(backend, where);
  require_linear(backend, where, "lm_head", lm_head, rows);
}

size_t linear_workspace_bytes(const OpTable& table, const LinearWeight& w, int64_t rows) {
  return ops::workspace_bytes(table, linear_over(w, rows, LinearPrecision::kBF16));
}

size_t prefill_workspace_bytes(const OpTable& table, const LayerDims& dims, const DecoderLayerWeights& layer, int64_t rows) {
  size_t bytes = 0;
  for_each_weight_operator(dims, layer, rows, LinearPrecision::kBF16,
                           [&](std::string_view /*name*/, const LinearWeight& /*w*/, const auto& op) {
                             // Experts have a workspace of their own, see LayerScratch.
                             if constexpr (requires { op.precision; }) bytes = std::max(bytes, ops::workspace_bytes(table, op));
                           });
  return bytes;
}

size_t lm_head_workspace_bytes(const OpTable& table, const LinearWeight& lm_head, int64_t rows) {
  return ops::workspace_bytes(table, linear_argmax_over(lm_head, rows));
}

}  // namespace foretoken
