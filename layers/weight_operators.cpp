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
/// What a linear layer reads.
Tensor input(const PassKind& pass, const LinearWeight& w) {
  return Tensor::shape_only(pass.activation_dtype, {pass.rows, w.in_features()});
}
Tensor output(const PassKind& pass, const LinearWeight& w) { return f32({pass.rows, w.out_features()}); }

/// The delta rule of a prefill pass: it reads no weight, but shares the workspace of the linear layers.
GatedDeltaRule delta_rule_over(const LayerDims& dims, int64_t rows) {
  const int64_t heads = dims.linear_num_value_heads;
  const Shape values{rows, heads, dims.linear_value_head_dim};
  GatedDeltaRule op;
  op.qkv = f32({rows, dims.conv_channels});
  op.b = op.a = f32({rows, heads});
  op.state = f32({1, heads, dims.linear_key_head_dim, dims.linear_value_head_dim});
  op.z = f32(values);
  op.norm = f32({dims.linear_value_head_dim});
  op.out = Tensor::shape_only(dims.activation_dtype, values);
  op.precision = LinearPrecision::kBF16;
  return op;
}

}  // namespace

Linear linear_over(const LinearWeight& w, const PassKind& pass) {
  return {.x = input(pass, w), .w = w, .out = output(pass, w), .workspace = {}, .precision = pass.precision};
}

LinearGroup linear_group_over(std::initializer_list<LinearWeight> weights, const PassKind& pass) {
  LinearGroup op;
  op.x = input(pass, *weights.begin());
  op.precision = pass.precision;
  for (size_t i = 0; i < weights.size(); ++i) {
    op.w[i] = weights.begin()[i];
    op.out[i] = output(pass, op.w[i]);
  }
  return op;
}

LinearArgmax linear_argmax_over(const LinearWeight& w, const PassKind& pass) {
  return {.x = input(pass, w), .w = w, .token_ids = i32({pass.rows}), .logprobs = {}, .workspace = {}};
}

LinearSiluMul linear_silu_mul_over(const MlpWeights& w, const PassKind& pass) {
  return {.x = input(pass, w.gate_proj),
          .gate = w.gate_proj,
          .up = w.up_proj,
          .out = Tensor::shape_only(pass.activation_dtype, {pass.rows, w.gate_proj.out_features()}),
          .workspace = {},
          .precision = pass.precision};
}

MoeExpertsUp experts_up_over(const LayerDims& dims, const LinearWeight& gate_up, int64_t rows, LinearPrecision precision) {
  return {.x = Tensor::shape_only(dims.activation_dtype, {rows, dims.hidden_size}),
          .gate_up = gate_up,
          .expert_offsets = i32({dims.num_experts + 1}),
          .expert_pairs = i32({rows * dims.num_experts_per_tok}),
          .out = Tensor::shape_only(dims.activation_dtype, {rows, dims.num_experts_per_tok, dims.moe_intermediate_size}),
          .precision = precision};
}

MoeExpertsDown experts_down_over(const LayerDims& dims, const LinearWeight& down, int64_t rows, LinearPrecision precision) {
  const int64_t slots = dims.num_experts_per_tok;
  return {.act = Tensor::shape_only(dims.activation_dtype, {rows, slots, dims.moe_intermediate_size}),
          .down = down,
          .topk_ids = i32({rows, slots}),
          .topk_weights = f32({rows, slots}),
          .expert_offsets = i32({dims.num_experts + 1}),
          .expert_pairs = i32({rows * slots}),
          .shared = f32({rows, dims.hidden_size}),
          .shared_gate = f32({rows, 1}),
          .out = f32({rows, dims.hidden_size}),
          .workspace = {},
          .precision = precision};
}

std::string describe_weight(std::string_view name, const LinearWeight& w) {
  return std::string(name) + " (" + std::string(to_string(w.format)) + ")";
}

void require_layer(const GpuBackend& backend, std::string_view where, const LayerDims& dims, const DecoderLayerWeights& layer,
                   std::initializer_list<int64_t> rows) {
  ops::require_any<RmsNorm, AddRmsNorm>(backend, where);
  if (layer.self_attn) ops::require_any<QkNormRopeCache, GatedAttention>(backend, where);
  if (layer.linear_attn) ops::require_any<CausalConv1dSilu, GatedDeltaRule>(backend, where);
  if (layer.moe) ops::require_any<MoeRoute, MoeBlock>(backend, where);
  for (const int64_t count : rows) {
    for (const LinearPrecision precision : kPrecisions) {
      for_each_weight_operator(dims, layer, count, precision, [&](const std::string& weights, const auto& op) {
        ops::require(backend, std::string(where) + ": " + weights, op);
      });
    }
  }
}

void require_linear(const GpuBackend& backend, std::string_view where, const LinearWeight& w, DType activation_dtype,
                    std::initializer_list<int64_t> rows) {
  for (const int64_t count : rows) {
    for (const LinearPrecision precision : kPrecisions) {
      const PassKind pass{.rows = count, .precision = precision, .activation_dtype = activation_dtype};
      ops::require(backend, describe_weight(where, w), linear_over(w, pass));
    }
  }
}

Availability fused_lm_head(const OpTable& table, const LinearWeight& lm_head, DType activation_dtype,
                           std::initializer_list<int64_t> rows) {
  for (const int64_t count : rows) {
    const LinearArgmax op = linear_argmax_over(lm_head, {.rows = count, .activation_dtype = activation_dtype});
    if (Availability fused = table.availability(LinearArgmax::schema().name(), &op); !fused) return fused;
  }
  return Availability::yes();
}

void require_lm_head(const GpuBackend& backend, std::string_view where, const LinearWeight& lm_head, DType activation_dtype,
                     std::initializer_list<int64_t> rows) {
  if (fused_lm_head(backend.ops(), lm_head, activation_dtype, rows)) return;
  ops::require_any<Argmax>(backend, where);
  require_linear(backend, std::string(where) + ": lm_head", lm_head, activation_dtype, rows);
}

size_t linear_workspace_bytes(const OpTable& table, const LinearWeight& w, const PassKind& pass) {
  return ops::workspace_bytes(table, linear_over(w, pass));
}

size_t prefill_workspace_bytes(const OpTable& table, const LayerDims& dims, const DecoderLayerWeights& layer, int64_t rows) {
  size_t bytes = layer.linear_attn ? ops::workspace_bytes(table, delta_rule_over(dims, rows)) : 0;
  for_each_weight_operator(dims, layer, rows, LinearPrecision::kBF16, [&](const std::string& /*weights*/, const auto& op) {
    // Experts have a workspace of their own, see LayerScratch.
    if constexpr (!requires { op.expert_pairs; }) bytes = std::max(bytes, ops::workspace_bytes(table, op));
  });
  return bytes;
}

size_t lm_head_workspace_bytes(const OpTable& table, const LinearWeight& lm_head, DType activation_dtype, int64_t rows) {
  return ops::workspace_bytes(table, linear_argmax_over(lm_head, {.rows = rows, .activation_dtype = activation_dtype}));
}

}  // namespace foretoken
