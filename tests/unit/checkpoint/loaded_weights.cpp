#include "tests/unit/checkpoint/loaded_weights.h"

#include <cstring>

namespace foretoken::test {
namespace {

using NamedTensors = std::map<std::string, Tensor>;

/// The format is part of the name, so that weights that differ in it alone differ.
void collect(NamedTensors& out, const std::string& name, const LinearWeight& weight) {
  check_weight(name, weight);
  const std::string key = name + " " + std::string(to_string(weight.format)) + "/" + std::to_string(weight.block_rows);
  out[key] = weight.weight;
  if (weight.scale) out[key + " scale"] = weight.scale;
  if (weight.global_scale) out[key + " global_scale"] = weight.global_scale;
}

void collect(NamedTensors& out, const std::string& prefix, const MlpWeights& mlp) {
  collect(out, prefix + "gate_proj", mlp.gate_proj);
  collect(out, prefix + "up_proj", mlp.up_proj);
  collect(out, prefix + "down_proj", mlp.down_proj);
}

void collect(NamedTensors& out, const std::string& prefix, const DecoderLayerWeights& layer) {
  out[prefix + "input_layernorm"] = layer.input_layernorm;
  out[prefix + "post_attention_layernorm"] = layer.post_attention_layernorm;
  if (layer.self_attn) {
    collect(out, prefix + "q_proj", layer.self_attn->q_proj);
    collect(out, prefix + "k_proj", layer.self_attn->k_proj);
    collect(out, prefix + "v_proj", layer.self_attn->v_proj);
    collect(out, prefix + "o_proj", layer.self_attn->o_proj);
    out[prefix + "q_norm"] = layer.self_attn->q_norm;
    out[prefix + "k_norm"] = layer.self_attn->k_norm;
    if (layer.self_attn->k_scale) out[prefix + "k_scale"] = layer.self_attn->k_scale;
    if (layer.self_attn->v_scale) out[prefix + "v_scale"] = layer.self_attn->v_scale;
  }
  if (layer.linear_attn) {
    collect(out, prefix + "in_proj_qkv", layer.linear_attn->in_proj_qkv);
    collect(out, prefix + "in_proj_z", layer.linear_attn->in_proj_z);
    collect(out, prefix + "in_proj_b", layer.linear_attn->in_proj_b);
    collect(out, prefix + "in_proj_a", layer.linear_attn->in_proj_a);
    collect(out, prefix + "out_proj", layer.linear_attn->out_proj);
    out[prefix + "conv1d"] = layer.linear_attn->conv1d;
    out[prefix + "A_log"] = layer.linear_attn->A_log;
    out[prefix + "dt_bias"] = layer.linear_attn->dt_bias;
    out[prefix + "norm"] = layer.linear_attn->norm;
  }
  if (layer.mlp) collect(out, prefix, *layer.mlp);
  if (layer.moe) {
    collect(out, prefix + "gate", layer.moe->gate);
    collect(out, prefix + "experts.gate_up_proj", layer.moe->gate_up_proj);
    collect(out, prefix + "experts.down_proj", layer.moe->down_proj);
    collect(out, prefix + "shared.", layer.moe->shared_expert);
    collect(out, prefix + "shared_expert_gate", layer.moe->shared_expert_gate);
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
  NamedTensors tensors{{"embed_tokens", model_.target.embed_tokens}, {"norm", model_.target.norm}};
  collect(tensors, "lm_head", model_.target.lm_head);
  for (size_t i = 0; i < model_.target.layers.size(); ++i) collect(tensors, std::to_string(i) + ".", model_.target.layers[i]);
  if (model_.mtp) {
    collect(tensors, "mtp.fc", model_.mtp->fc);
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
