#include "layers/moe.h"

namespace foretoken {

void Moe::forward(CommandList& cmd, const Tensor& x, const LayerStep& step, const Tensor& out) const {
  const int64_t rows = x.dim(0);
  ops::dispatch(cmd, MoeBlock{.x = x,
                              .router = w_.gate,
                              .shared_expert_gate = w_.shared_expert_gate,
                              .shared_gate = w_.shared_expert.gate_proj,
                              .shared_up = w_.shared_expert.up_proj,
                              .shared_down = w_.shared_expert.down_proj,
                              .gate_up = w_.gate_up_proj,
                              .down = w_.down_proj,
                              .logits = s_.router_logits.rows(0, rows),
                              .shared_score = s_.shared_gate.rows(0, rows),
                              .shared_act = s_.shared_act.rows(0, rows),
                              .shared = s_.shared.rows(0, rows),
                              .topk_ids = s_.topk_ids.rows(0, rows),
                              .topk_weights = s_.topk_weights.rows(0, rows),
                              .expert_offsets = s_.expert_offsets,
                              .expert_pairs = s_.expert_pairs.rows(0, rows * dims_.num_experts_per_tok),
                              .act = s_.expert_act.rows(0, rows),
                              .out = out,
                              .linear_workspace = step.linear_workspace(),
                              .workspace = s_.expert_work,
                              .norm_topk_prob = dims_.norm_topk_prob,
                              .precision = step.precision});
}

}  // namespace foretoken
