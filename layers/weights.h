// The weights of each layer as views, named as in the checkpoint. Every norm weight, A_log, dt_bias and the convolution are F32
// (converted at load, exactly); linear weights keep the checkpoint's format. The loader in models/ fills these.
#pragma once

#include <optional>
#include <vector>

#include "core/linear_weight.h"
#include "core/tensor.h"

namespace foretoken {

struct GatedAttentionWeights {
  LinearWeight q_proj;  // [2 * num_attention_heads * head_dim, hidden_size], per head [query | gate]
  LinearWeight k_proj;  // [num_key_value_heads * head_dim, hidden_size]
  LinearWeight v_proj;  // like k_proj
  LinearWeight o_proj;  // [hidden_size, num_attention_heads * head_dim]
  Tensor q_norm;        // [head_dim]
  Tensor k_norm;        // [head_dim]
  Tensor k_scale;       // [1] F32, of the K cache in FP8; absent when the checkpoint has none
  Tensor v_scale;       // like k_scale
};

/// Rows of in_proj_qkv: [q (nk * dk) | k (nk * dk) | v (nv * dv)]; Qwen3-Next's interleaved projections are put in this order at
/// load.
struct GatedDeltaNetWeights {
  LinearWeight in_proj_qkv;  // [conv_channels, hidden_size]
  LinearWeight in_proj_z;    // [nv * dv, hidden_size]
  LinearWeight in_proj_b;    // [nv, hidden_size]
  LinearWeight in_proj_a;    // [nv, hidden_size]
  LinearWeight out_proj;     // [hidden_size, nv * dv]
  Tensor conv1d;             // [conv_channels, 4]
  Tensor A_log;              // [nv]
  Tensor dt_bias;            // [nv]
  Tensor norm;               // [dv], plain weight
};

struct MlpWeights {
  LinearWeight gate_proj;  // [intermediate_size, hidden_size]
  LinearWeight up_proj;    // like gate_proj
  LinearWeight down_proj;  // [hidden_size, intermediate_size]
};

struct MoeWeights {
  LinearWeight gate;                // router, [num_experts, hidden_size]
  LinearWeight gate_up_proj;        // [num_experts, 2 * moe_intermediate_size, hidden_size], gate rows first
  LinearWeight down_proj;           // [num_experts, hidden_size, moe_intermediate_size]
  MlpWeights shared_expert;         // of shared_expert_intermediate_size
  LinearWeight shared_expert_gate;  // [1, hidden_size]
};

/// One of `self_attn` and `linear_attn`, one of `mlp` and `moe`.
struct DecoderLayerWeights {
  Tensor input_layernorm;           // [hidden_size]
  Tensor post_attention_layernorm;  // [hidden_size]
  std::optional<GatedAttentionWeights> self_attn;
  std::optional<GatedDeltaNetWeights> linear_attn;
  std::optional<MlpWeights> mlp;
  std::optional<MoeWeights> moe;
};

struct TargetWeights {
  Tensor embed_tokens;  // [vocab_size, hidden_size], F32 or BF16
  std::vector<DecoderLayerWeights> layers;
  Tensor norm;           // [hidden_size]
  LinearWeight lm_head;  // [vocab_size, hidden_size]; views embed_tokens when tied
};

/// The draft head. Embedding and LM head are the target's.
struct MtpWeights {
  LinearWeight fc;               // [hidden_size, 2 * hidden_size], embedding half first
  Tensor pre_fc_norm_embedding;  // [hidden_size]
  Tensor pre_fc_norm_hidden;     // [hidden_size]
  DecoderLayerWeights layer;     // always full attention
  Tensor norm;                   // [hidden_size]
};

/// What a draft head has in common with its target.
struct SharedWeights {
  Tensor embed_tokens;   // [vocab_size, hidden_size], F32 or BF16
  LinearWeight lm_head;  // [vocab_size, hidden_size]
};

/// All that drafting reads.
struct DrafterWeights {
  MtpWeights mtp;
  SharedWeights shared;
};

}  // namespace foretoken
