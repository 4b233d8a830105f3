#include "layers/moe.h"

namespace foretoken {

void Moe::forward(CommandList& cmd, const Tensor& x, const LayerStep& step, const Tensor& out) const {
  const int64_t rows = x.dim(0);
  const Tensor logits = s_.router_logits.rows(0, rows);
  const Tensor topk_ids = s_.topk_ids.rows(0, rows);
  const Tensor topk_weights = s_.topk_weights.rows(0, rows);
  const Tensor pairs = s_.expert_pairs.rows(0, rows * dims_.num_experts_per_tok);
  const Tensor act = s_.expert_act.rows(0, rows);
  const Tensor shared = s_.shared.rows(0, rows);
  const Tensor shared_gate = s_.shared_gate.rows(0, rows);

  ops::dispatch(cmd, LinearGroup{.x = x, .w = {w_.gate, w_.shared_expert_gate}, .out = {logits, shared_gate}, .workspace = {}});
  shared_expert_.forward(cmd, x, step, shared);
  ops::dispatch(cmd, MoeRoute{.logits = logits,
                              .topk_ids = topk_ids,
                              .topk_weights = topk_weights,
                              .expert_offsets = s_.expert_offsets,
                              .expert_pairs = pairs,
                              .norm_topk_prob = dims_.norm_topk_prob});
  ops::dispatch(cmd, MoeExpertsUp{.x = x,
                                  .gate_up = w_.gate_up_proj,
                                  .expert_offsets = s_.expert_offsets,
                                  .expert_pairs = pairs,
                                  .out = act,
                                  .precision = step.precision});
  ops::dispatch(cmd, MoeExpertsDown{.act = act,
                                    .down = w_.down_proj,
                                    .topk_ids = topk_ids,
                                    .topk_weights = topk_weights,
                                    .expert_offsets = s_.expert_offsets,
                                    .expert_pairs = pairs,
                                    .shared = shared,
                                    .shared_gate = shared_gate,
                                    .out = out,
                                    .workspace = s_.expert_work,
                                    .precision = step.precision});
}

}  // namespace foretoken
