// Activations between the operators of a decoder layer. One set serves all layers of a stack, since they run one after another.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/backend.h"
#include "core/tensor.h"

namespace foretoken {

/// Sizes and the dtype that decide how large the intermediate activations are. A part that a model lacks is 0.
struct LayerDims {
  int64_t hidden_size = 0;
  int64_t num_attention_heads = 0;
  int64_t num_key_value_heads = 0;
  int64_t head_dim = 0;
  int64_t rotary_dim = 0;
  int64_t conv_channels = 0;
  int64_t linear_num_value_heads = 0;
  int64_t linear_key_head_dim = 0;
  int64_t linear_value_head_dim = 0;
  int64_t intermediate_size = 0;  // dense feed-forward
  int64_t num_experts = 0;
  int64_t num_experts_per_tok = 0;
  int64_t moe_intermediate_size = 0;
  int64_t shared_expert_intermediate_size = 0;
  bool norm_topk_prob = true;
  float rms_norm_eps = 1e-6F;
  DType activation_dtype = DType::kF32;  // of queries and the inputs of linear layers; all other activations are F32
};

/// Every tensor has `max_rows` rows; a pass over T rows uses the first T. Stages have tensors of their own, so the values of the
/// last layer of a pass can be read afterwards. What linear layers read (input_norm, post_norm, attention, delta, act,
/// expert_act, shared_act) and the queries of attention have the activation dtype, everything else is F32. Owns its memory.
class LayerScratch {
 public:
  /// `max_seq_len` bounds the context that attention splits over. Throws OutOfMemory.
  LayerScratch(GpuBackend& backend, const LayerDims& dims, int64_t max_rows, int64_t max_seq_len, DType cache_dtype);

  [[nodiscard]] int64_t max_rows() const { return max_rows_; }

  Tensor input_norm;      // [T, hidden_size]
  Tensor mixed;           // [T, hidden_size], output of attention or delta net
  Tensor post_norm;       // [T, hidden_size]
  Tensor ffn;             // [T, hidden_size], output of the feed-forward
  Tensor q_gate;          // [T, Hq * 2 * D]
  Tensor q;               // [T, Hq * D]
  Tensor k;               // [T, Hkv * D], as projected
  Tensor v;               // [T, Hkv * D]
  Tensor attention;       // [T, Hq * D], gated
  Tensor attention_work;  // bytes
  Tensor qkv;             // [T, conv_channels], raw
  Tensor conv;            // [T, conv_channels]
  Tensor z;               // [T, nv * dv]
  Tensor b;               // [T, nv]
  Tensor a;               // [T, nv]
  Tensor delta;           // [T, nv * dv], normed and gated
  Tensor act;             // [T, intermediate_size]
  Tensor router_logits;   // [T, E]
  Tensor topk_ids;        // [T, k] I32
  Tensor topk_weights;    // [T, k]
  Tensor expert_offsets;  // [E + 1] I32
  Tensor expert_pairs;    // [T * k] I32
  Tensor expert_act;      // [T, k, moe_intermediate_size]
  Tensor expert_work;     // bytes
  Tensor shared_act;      // [T, shared_expert_intermediate_size]
  Tensor shared;          // [T, hidden_size]
  Tensor shared_gate;     // [T, 1]

 private:
  void allocate(GpuBackend& backend, const LayerDims& dims);
  void allocate_workspaces(GpuBackend& backend, const LayerDims& dims, int64_t max_seq_len, DType cache_dtype);

  int64_t max_rows_;
  std::vector<Buffer> buffers_;
};

}  // namespace foretoken
