#include "tests/unit/checkpoint/loaded_weights.h"

#include <cstring>

namespace foretoken::test {
namespace {

using NamedTensors = std::map<std::string, Tensor>;

void collect(NamedTensors& out, const std::string& prefix, const DecoderLayerWeights& layer) {
  out[prefix + "input_layernorm"] = layer.input_layernorm;
  out[prefix + "post_attention_layernorm"] = layer.post_attention_layernorm;
  if (layer.self_attn) {
    out[prefix + "q_proj"] = layer.self_attn->q_proj.weight;
    out[prefix + "k_proj"] = layer.self_attn->k_proj.weight;
    out[prefix + "v_proj"] = layer.self_attn->v_proj.weight;
    out[prefix + "o_proj"] = layer.self_attn->o_proj.weight;
    out[prefix + "q_norm"] = layer.self_attn->q_norm;
    out[prefix + "k_norm"] = layer.self_attn->k_norm;
  }
  if (layer.linear_attn) {
    out[prefix + "in_proj_qkv"] = layer.linear_attn->in_proj_qkv.weight;
    out[prefix + "in_proj_z"] = layer.linear_attn->in_proj_z.weight;
    out[prefix + "in_proj_b"] = layer.linear_attn->in_proj_b.weight;
    out[prefix + "in_proj_a"] = layer.linear_attn->in_proj_a.weight;
    out[prefix + "out_proj"] = layer.linear_attn->out_proj.weight;
    out[prefix + "conv1d"] = layer.linear_attn->conv1d;
    out[prefix + "A_log"] = layer.linear_attn->A_log;
    out[prefix + "dt_bias"] = layer.linear_attn->dt_bias;
    out[prefix + "norm"] = layer.linear_attn->norm;
  }
  if (layer.mlp) {
    out[prefix + "gate_proj"] = layer.mlp->gate_proj.weight;
    out[prefix + "up_proj"] = layer.mlp->up_proj.weight;
    out[prefix + "down_proj"] = layer.mlp->down_proj.weight;
  }
  if (layer.moe) {
    out[prefix + "gate"] = layer.moe->gate.weight;
    out[prefix + "experts.gate_up_proj"] = layer.moe->gate_up_proj.weight;
    out[prefix + "experts.down_proj"] = layer.moe->down_proj.weight;
    out[prefix + "shared.gate_proj"] = layer.moe->shared_expert.gate_proj.weight;
    out[prefix + "shared.up_proj"] = layer.moe->shared_expert.up_proj.weight;
    out[prefix + "shared.down_proj"] = layer.moe->shared_expert.down_proj.weight;
    out[prefix + "shared_expert_gate"] = layer.moe->shared_expert_gate.weight;
  }
}

}  // namespace

std::vector<float> LoadedWeights::floats(const Tensor& tensor) const {
  const std::vector<std::byte> host = bytes(tensor);
  std::vector<float> values(host.size() / sizeof(float));
  std::memcpy(values.data(), host.data(), host.size());
  return values;
}

std::map<std::string, std::vector<std::byte>> LoadedWeights::all() const {
  NamedTensors tensors{
      {"embed_tokens", model_.target.embed_tokens}, {"norm", model_.target.norm}, {"lm_head", model_.target.lm_head.weight}};
  for (size_t i = 0; i < model_.target.layers.size(); ++i) collect(tensors, std::to_string(i) + ".", model_.target.layers[i]);
  if (model_.mtp) {
    tensors["mtp.fc"] = model_.mtp->fc.weight;
    tensors["mtp.pre_fc_norm_embedding"] = model_.mtp->pre_fc_norm_embedding;
    tensors["mtp.pre_fc_norm_hidden"] = model_.mtp->pre_fc_norm_hidden;
    tensors["mtp.norm"] = model_.mtp->norm;
    collect(tensors, "mtp.", model_.mtp->layer);
  }
  std::map<std::string, std::vector<std::byte>> result;
  for (const auto& [name, tensor] : tensors) result[name] = bytes(tensor);
  return result;
}

}  // namespace foretoken::test
