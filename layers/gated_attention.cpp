#include "layers/gated_attention.h"

#include <cmath>

namespace foretoken {

void GatedAttentionLayer::forward(CommandList& cmd, const Tensor& x, const LayerStep& step, const PagedKvView& kv) const {
  const int64_t rows = x.dim(0);
  const int64_t heads = dims_.num_attention_heads;
  const int64_t kv_heads = dims_.num_key_value_heads;
  const int64_t head_dim = dims_.head_dim;
  const Tensor q_gate = s_.q_gate.rows(0, rows);
  const Tensor k = s_.k.rows(0, rows);
  const Tensor v = s_.v.rows(0, rows);
  const Tensor q = s_.q.rows(0, rows).reshape({rows, heads, head_dim});
  const Tensor attention = s_.attention.rows(0, rows);

  step.linears(cmd, x, {w_.q_proj, w_.k_proj, w_.v_proj}, {q_gate, k, v});
  ops::dispatch(cmd, QkNormRopeCache{.q_gate = q_gate.reshape({rows, heads, 2 * head_dim}),
                                     .k = k.reshape({rows, kv_heads, head_dim}),
                                     .v = v.reshape({rows, kv_heads, head_dim}),
                                     .q_norm = w_.q_norm,
                                     .k_norm = w_.k_norm,
                                     .cos_sin = step.cos_sin,
                                     .slot_mapping = step.view.slot_mapping,
                                     .q = q,
                                     .k_cache = kv.k_cache,
                                     .v_cache = kv.v_cache,
                                     .k_scale = kv.k_scale,
                                     .v_scale = kv.v_scale,
                                     .eps = dims_.rms_norm_eps});
  ops::dispatch(cmd, GatedAttention{.q = q,
                                    .q_gate = q_gate.reshape({rows, heads, 2 * head_dim}),
                                    .k_cache = kv.k_cache,
                                    .v_cache = kv.v_cache,
                                    .k_scale = kv.k_scale,
                                    .v_scale = kv.v_scale,
                                    .block_table = step.view.block_table,
                                    .seq_lens = step.view.seq_lens,
                                    .query_start_loc = step.view.query_start_loc,
                                    .out = attention.reshape({rows, heads, head_dim}),
                                    .workspace = s_.attention_work,
                                    .scale = 1.0F / std::sqrt(static_cast<float>(head_dim)),
                                    .max_seq_len = step.view.max_seq_len,
                                    .precision = step.precision});
  step.linear(cmd, attention, w_.o_proj, s_.mixed.rows(0, rows));
}

void GatedAttentionLayer::write_cache(CommandList& cmd, const Tensor& x, const LayerStep& step, const PagedKvView& kv) const {
  const int64_t rows = x.dim(0);
  const Shape heads{rows, dims_.num_key_value_heads, dims_.head_dim};
  const Tensor k = s_.k.rows(0, rows);
  const Tensor v = s_.v.rows(0, rows);
  step.linears(cmd, x, {w_.k_proj, w_.v_proj}, {k, v});
  ops::dispatch(cmd, QkNormRopeCache{.q_gate = {},
                                     .k = k.reshape(heads),
                                     .v = v.reshape(heads),
                                     .q_norm = {},
                                     .k_norm = w_.k_norm,
                                     .cos_sin = step.cos_sin,
                                     .slot_mapping = step.view.slot_mapping,
                                     .q = {},
                                     .k_cache = kv.k_cache,
                                     .v_cache = kv.v_cache,
                                     .k_scale = kv.k_scale,
                                     .v_scale = kv.v_scale,
                                     .eps = dims_.rms_norm_eps});
}

}  // namespace foretoken
