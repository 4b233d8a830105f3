// The structures of backends/gpu/moe_params.h.
#ifndef FORETOKEN_MOE_PARAMS_GLSL
#define FORETOKEN_MOE_PARAMS_GLSL

const uint kMaxExperts = 512;  // a logical warp keeps their logits

struct MoeTopkParams {
  uint64_t logits;
  uint64_t topk_ids;
  uint64_t topk_weights;
  uint64_t logits_stride;
  uint num_rows;
  uint num_experts;
  uint top_k;
  uint renormalise;
};

struct MoeGroupParams {
  uint64_t topk_ids;
  uint64_t expert_offsets;
  uint64_t expert_pairs;
  uint num_experts;
  uint num_pairs;
};

struct MoeJoinParams {
  uint64_t products;
  uint64_t topk_weights;
  uint64_t shared_rows;
  uint64_t shared_gate;
  uint64_t out_;
  uint64_t shared_stride;
  uint64_t shared_gate_stride;
  uint64_t out_stride;
  uint top_k;
  uint hidden_size;
  uint shared_is_bf16;
  uint out_is_bf16;
};

#endif
