#include "models/weight_map.h"

#include <algorithm>
#include <array>

#include "core/error.h"
#include "core/log.h"
#include "models/weight_map_planner.h"

namespace foretoken {
namespace {

constexpr std::array<std::string_view, 3> kTrunkPrefixes{"model.language_model.", "language_model.model.", "model."};
constexpr std::array<std::string_view, 4> kMtpPrefixes{"mtp.", "model.mtp.", "language_model.mtp.", "model.language_model.mtp."};

/// Walks the architecture and asks the planner for each weight of it.
class ModelMapper {
 public:
  ModelMapper(WeightPlanner& planner, const ModelConfig& config, WeightPlan& plan)
      : planner_(planner), catalog_(planner.catalog()), config_(config), plan_(plan) {}

  void map_target();
  /// The embedding and the LM head.
  void map_shared() { map_lm_head(map_embedding()); }
  void map_mtp();

 private:
  [[nodiscard]] std::string trunk_prefix() const;
  /// Returns the prefix of the trunk.
  std::string map_embedding();
  void map_lm_head(const std::string& prefix);
  void map_layer(const std::string& prefix, bool full_attention, DecoderLayerWeights& layer);
  void map_attention(const std::string& prefix, GatedAttentionWeights& w);
  void map_kv_scales(const std::string& prefix, GatedAttentionWeights& w);
  void map_delta_net(const std::string& prefix, GatedDeltaNetWeights& w);
  void map_interleaved_projections(const std::string& prefix, GatedDeltaNetWeights& w);
  void map_mlp(const std::string& prefix, MlpWeights& w, int64_t intermediate_size, WeightPart part);
  void map_moe(const std::string& prefix, MoeWeights& w);
  void map_experts(const std::string& prefix, MoeWeights& w);
  void map_norm(const std::string& name, Tensor& slot, int64_t size) {
    planner_.add_f32(name + ".weight", slot, {size}, {size}, WeightPart::kNorms);
  }
  [[nodiscard]] std::string mtp_prefix() const;
  [[nodiscard]] std::string mtp_refusal(const std::string& prefix) const;

  WeightPlanner& planner_;
  WeightCatalog& catalog_;
  const ModelConfig& config_;
  WeightPlan& plan_;
};

std::string ModelMapper::trunk_prefix() const {
  for (const std::string_view prefix : kTrunkPrefixes) {
    if (catalog_.has_prefix(std::string(prefix) + "embed_tokens.")) return std::string(prefix);
  }
  throw Error(ErrorCode::kFormatError, {.what = "tensor embed_tokens.weight is missing",
                                        .where = catalog_.source().name(),
                                        .expected = "it under model.language_model., language_model.model. or model.",
                                        .got = "no tensor of that name"});
}

std::string ModelMapper::map_embedding() {
  std::string prefix = trunk_prefix();
  planner_.add_table(prefix + "embed_tokens", plan_.target.embed_tokens, {config_.vocab_size, config_.hidden_size});
  return prefix;
}

void ModelMapper::map_target() {
  const std::string prefix = map_embedding();
  plan_.target.layers.resize(static_cast<size_t>(config_.num_hidden_layers));
  for (size_t i = 0; i < plan_.target.layers.size(); ++i) {
    map_layer(prefix + "layers." + std::to_string(i) + ".", config_.layer_types[i] == LayerType::kFullAttention,
              plan_.target.layers[i]);
  }
  map_norm(prefix + "norm", plan_.target.norm, config_.hidden_size);
  map_lm_head(prefix);
}

void ModelMapper::map_lm_head(const std::string& prefix) {
  const std::string base =
      catalog_.has_prefix("lm_head.") || !catalog_.has_prefix(prefix + "lm_head.") ? "lm_head" : prefix + "lm_head";
  plan_.tied_lm_head = config_.tie_word_embeddings;
  if (!config_.tie_word_embeddings) {
    planner_.add_linear(base, plan_.target.lm_head, config_.vocab_size, config_.hidden_size, WeightPart::kLmHead);
    return;
  }
  // Tying is structure, which the config decides (precision is what tensors decide): the reference implementation computes with
  // embed_tokens here and never looks at a head that an exporter wrote all the same.
  if (catalog_.has_prefix(base + ".")) {
    log().debug("{}: {} is not read: the config ties it to embed_tokens", catalog_.source().name(), base);
    catalog_.take_all(base + ".");
  }
}

void ModelMapper::map_layer(const std::string& prefix, bool full_attention, DecoderLayerWeights& layer) {
  map_norm(prefix + "input_layernorm", layer.input_layernorm, config_.hidden_size);
  if (full_attention) {
    map_attention(prefix + "self_attn.", layer.self_attn.emplace());
  } else {
    map_delta_net(prefix + "linear_attn.", layer.linear_attn.emplace());
  }
  map_norm(prefix + "post_attention_layernorm", layer.post_attention_layernorm, config_.hidden_size);
  if (config_.is_moe()) {
    map_moe(prefix + "mlp.", layer.moe.emplace());
  } else {
    map_mlp(prefix + "mlp.", layer.mlp.emplace(), config_.intermediate_size, WeightPart::kMlp);
  }
}

void ModelMapper::map_attention(const std::string& prefix, GatedAttentionWeights& w) {
  const int64_t hidden_size = config_.hidden_size;
  const int64_t query_size = config_.num_attention_heads * config_.head_dim;
  const int64_t kv_size = config_.num_key_value_heads * config_.head_dim;
  planner_.add_linear(prefix + "q_proj", w.q_proj, 2 * query_size, hidden_size, WeightPart::kAttention);
  planner_.add_linear(prefix + "k_proj", w.k_proj, kv_size, hidden_size, WeightPart::kAttention);
  planner_.add_linear(prefix + "v_proj", w.v_proj, kv_size, hidden_size, WeightPart::kAttention);
  planner_.add_linear(prefix + "o_proj", w.o_proj, hidden_size, query_size, WeightPart::kAttention);
  map_norm(prefix + "q_norm", w.q_norm, config_.head_dim);
  map_norm(prefix + "k_norm", w.k_norm, config_.head_dim);
  map_kv_scales(prefix, w);
}

/// Scales of an FP8 cache that some exporters put beside the projections, or into the layer.
void ModelMapper::map_kv_scales(const std::string& prefix, GatedAttentionWeights& w) {
  const auto take = [&](const std::string& side) {
    for (const std::string& name :
         {side + "_scale", side + "_proj." + side + "_scale", side + "_proj.output_scale", "attn." + side + "_scale"}) {
      if (const auto found = catalog_.take(prefix + name)) return found;
    }
    return std::optional<size_t>();
  };
  const std::optional<size_t> key = take("k");
  const std::optional<size_t> value = take("v");
  if (key.has_value() != value.has_value()) {
    const SourceTensor& alone = catalog_.tensor(key ? *key : *value);
    throw Error(ErrorCode::kFormatError, {.what = "tensor " + alone.name + " is the scale of one side of the KV cache only",
                                          .where = alone.origin,
                                          .expected = "a k_scale and a v_scale, or neither",
                                          .got = describe(alone)});
  }
  if (key) planner_.add_kv_scale(*key, w.k_scale);
  if (value) planner_.add_kv_scale(*value, w.v_scale);
  // That of the queries belongs to attention in FP8, which this library does not compute.
  static_cast<void>(take("q"));
}

void ModelMapper::map_delta_net(const std::string& prefix, GatedDeltaNetWeights& w) {
  constexpr WeightPart kPart = WeightPart::kDeltaNet;
  const int64_t hidden_size = config_.hidden_size;
  const int64_t num_value_heads = config_.linear_num_value_heads;
  const int64_t value_size = num_value_heads * config_.linear_value_head_dim;
  const int64_t channels = config_.conv_channels();
  const int64_t kernel = config_.linear_conv_kernel_dim;
  if (catalog_.has_prefix(prefix + "in_proj_qkvz.") || catalog_.has_prefix(prefix + "in_proj_ba.")) {
    map_interleaved_projections(prefix, w);
  } else {
    planner_.add_linear(prefix + "in_proj_qkv", w.in_proj_qkv, channels, hidden_size, kPart);
    planner_.add_linear(prefix + "in_proj_z", w.in_proj_z, value_size, hidden_size, kPart);
    planner_.add_linear(prefix + "in_proj_b", w.in_proj_b, num_value_heads, hidden_size, kPart);
    planner_.add_linear(prefix + "in_proj_a", w.in_proj_a, num_value_heads, hidden_size, kPart);
  }
  planner_.add_linear(prefix + "out_proj", w.out_proj, hidden_size, value_size, kPart);
  planner_.add_f32(prefix + "conv1d.weight", w.conv1d, {channels, 1, kernel}, {channels, kernel}, kPart);
  planner_.add_f32(prefix + "A_log", w.A_log, {num_value_heads}, {num_value_heads}, kPart);
  planner_.add_f32(prefix + "dt_bias", w.dt_bias, {num_value_heads}, {num_value_heads}, kPart);
  map_norm(prefix + "norm", w.norm, config_.linear_value_head_dim);
}

/// Qwen3-Next: in_proj_qkvz per k head [q(dk) | k(dk) | v(r*dv) | z(r*dv)], in_proj_ba per k head [b(r) | a(r)], r = nv/nk.
void ModelMapper::map_interleaved_projections(const std::string& prefix, GatedDeltaNetWeights& w) {
  constexpr WeightPart kPart = WeightPart::kDeltaNet;
  const int64_t heads = config_.linear_num_key_heads;
  const int64_t ratio = config_.linear_num_value_heads / heads;
  const int64_t key = config_.linear_key_head_dim;
  const int64_t value = ratio * config_.linear_value_head_dim;
  const int64_t group = 2 * key + 2 * value;
  const auto every_head = [&](std::vector<RowRange>& rows, int64_t group_rows, int64_t begin, int64_t count) {
    for (int64_t head = 0; head < heads; ++head) rows.push_back({.begin = head * group_rows + begin, .count = count});
  };
  std::vector<RowRange> qkv;
  std::vector<RowRange> z;
  std::vector<RowRange> b;
  std::vector<RowRange> a;
  every_head(qkv, group, 0, key);
  every_head(qkv, group, key, key);
  every_head(qkv, group, 2 * key, value);
  every_head(z, group, 2 * key + value, value);
  every_head(b, 2 * ratio, 0, ratio);
  every_head(a, 2 * ratio, ratio, ratio);
  const StoredLinear qkvz = find_linear(catalog_, prefix + "in_proj_qkvz", heads * group, config_.hidden_size);
  const StoredLinear ba = find_linear(catalog_, prefix + "in_proj_ba", heads * 2 * ratio, config_.hidden_size);
  planner_.add_rows(qkvz, qkv, w.in_proj_qkv, kPart);
  planner_.add_rows(qkvz, z, w.in_proj_z, kPart);
  planner_.add_rows(ba, b, w.in_proj_b, kPart);
  planner_.add_rows(ba, a, w.in_proj_a, kPart);
}

void ModelMapper::map_mlp(const std::string& prefix, MlpWeights& w, int64_t intermediate_size, WeightPart part) {
  planner_.add_pair(prefix + "gate_proj", w.gate_proj, prefix + "up_proj", w.up_proj, intermediate_size, config_.hidden_size,
                    part);
  planner_.add_linear(prefix + "down_proj", w.down_proj, config_.hidden_size, intermediate_size, part);
}

void ModelMapper::map_moe(const std::string& prefix, MoeWeights& w) {
  planner_.add_linear(prefix + "gate", w.gate, config_.num_experts, config_.hidden_size, WeightPart::kRouter);
  map_experts(prefix + "experts.", w);
  map_mlp(prefix + "shared_expert.", w.shared_expert, config_.shared_expert_intermediate_size, WeightPart::kSharedExpert);
  planner_.add_linear(prefix + "shared_expert_gate", w.shared_expert_gate, 1, config_.hidden_size, WeightPart::kSharedExpert);
}

void ModelMapper::map_experts(const std::string& prefix, MoeWeights& w) {
  const int64_t experts = config_.num_experts;
  const int64_t inner = config_.moe_intermediate_size;
  const int64_t hidden_size = config_.hidden_size;
  std::vector<StoredLinear> gate_up;
  std::vector<StoredLinear> down;
  const bool fused = catalog_.has_prefix(prefix + "gate_up_proj") || catalog_.has_prefix(prefix + "down_proj");
  if (fused) {
    gate_up = find_fused(catalog_, prefix + "gate_up_proj", experts, 2 * inner, hidden_size);
    down = find_fused(catalog_, prefix + "down_proj", experts, hidden_size, inner);
  }
  for (int64_t expert = 0; expert < experts && !fused; ++expert) {
    const std::string base = prefix + std::to_string(expert) + ".";
    gate_up.push_back(find_linear(catalog_, base + "gate_proj", inner, hidden_size));
    gate_up.push_back(find_linear(catalog_, base + "up_proj", inner, hidden_size));
    down.push_back(find_linear(catalog_, base + "down_proj", hidden_size, inner));
  }
  planner_.add_stack(gate_up, w.gate_up_proj, experts, 2, WeightPart::kExperts);
  planner_.add_stack(down, w.down_proj, experts, 1, WeightPart::kExperts);
}

std::string ModelMapper::mtp_prefix() const {
  std::string found;
  for (const std::string_view prefix : kMtpPrefixes) {
    if (!catalog_.has_prefix(prefix)) continue;
    if (!found.empty()) {
      throw Error(ErrorCode::kFormatError, {.what = "two draft heads",
                                            .where = catalog_.source().name(),
                                            .expected = "mtp tensors under one prefix",
                                            .got = found + " and " + std::string(prefix)});
    }
    found = prefix;
  }
  return found;
}

/// Why the head under `prefix` cannot be used; empty when it can.
std::string ModelMapper::mtp_refusal(const std::string& prefix) const {
  const int64_t announced = config_.mtp_num_hidden_layers;
  const std::string layers = announced == 1 ? "1 MTP layer" : std::to_string(announced) + " MTP layers";
  if (prefix.empty() && announced == 0) return "the checkpoint has no mtp.* tensors";
  if (prefix.empty()) return "config.json announces " + layers + ", but the checkpoint has no mtp.* tensors";
  const auto stored = static_cast<int64_t>(catalog_.count_indices(prefix + "layers."));
  if (announced > 1 || stored > 1) {
    return "a head with " + std::to_string(std::max(announced, stored)) +
           " MTP layers is not supported: only heads of one layer, used again for every draft, are";
  }
  if (config_.mtp_use_dedicated_embeddings)
    return "a head with its own embeddings (mtp_use_dedicated_embeddings) is not supported";
  return {};
}

void ModelMapper::map_mtp() {
  const std::string prefix = mtp_prefix();
  plan_.mtp_absent_reason = mtp_refusal(prefix);
  if (!plan_.mtp_absent_reason.empty()) {
    if (!prefix.empty()) catalog_.take_all(prefix);
    return;
  }
  planner_.set_draft(true);
  const int64_t hidden_size = config_.hidden_size;
  MtpWeights& w = plan_.mtp.emplace();
  planner_.add_linear(prefix + "fc", w.fc, hidden_size, 2 * hidden_size, WeightPart::kFc);
  map_norm(prefix + "pre_fc_norm_embedding", w.pre_fc_norm_embedding, hidden_size);
  map_norm(prefix + "pre_fc_norm_hidden", w.pre_fc_norm_hidden, hidden_size);
  map_layer(prefix + "layers.0.", /*full_attention=*/true, w.layer);
  map_norm(prefix + "norm", w.norm, hidden_size);
}

/// Throws InvalidArgument for views that are not the embedding and the LM head of such a model.
void check_shared(const SharedWeights& shared, const ModelConfig& config) {
  const Shape shape{config.vocab_size, config.hidden_size};
  const auto refuse = [&](const std::string& what, const Tensor& tensor, const std::string& dtypes) {
    throw Error(ErrorCode::kInvalidArgument,
                {.what = what,
                 .where = "weights shared with a target",
                 .expected = dtypes + " " + shape.to_string() + ", contiguous",
                 .got = tensor ? std::string(to_string(tensor.dtype())) + " " + tensor.shape().to_string() : "nothing"});
  };
  const Tensor& table = shared.embed_tokens;
  const bool is_plain = table.dtype() == DType::kF32 || table.dtype() == DType::kBF16;
  if (!table || !is_plain || table.shape() != shape || !table.is_contiguous()) refuse("embed_tokens", table, "F32 or BF16");
  const Tensor& codes = shared.lm_head.weight;
  if (!codes || codes.shape() != shape || !codes.is_contiguous()) refuse("lm_head", codes, "weights of any format");
  check_weight("weights shared with a target: lm_head", shared.lm_head);
}

}  // namespace

std::string_view to_string(WeightPart part) {
  switch (part) {
    case WeightPart::kEmbedding: return "embed_tokens";
    case WeightPart::kNorms: return "norms";
    case WeightPart::kAttention: return "self_attn";
    case WeightPart::kDeltaNet: return "linear_attn";
    case WeightPart::kMlp: return "mlp";
    case WeightPart::kRouter: return "router";
    case WeightPart::kExperts: return "experts";
    case WeightPart::kSharedExpert: return "shared_expert";
    case WeightPart::kFc: return "fc";
    case WeightPart::kLmHead: return "lm_head";
    case WeightPart::kKvScales: return "kv_scales";
  }
  return "unknown";
}

std::unique_ptr<WeightPlan> plan_weights(const WeightSource& source, const ModelConfig& config) {
  auto plan = std::make_unique<WeightPlan>();
  WeightCatalog catalog(source, config.quant_method);
  WeightPlanner planner(catalog, *plan);
  ModelMapper mapper(planner, config, *plan);
  mapper.map_target();
  mapper.map_mtp();
  catalog.check_nothing_left();
  return plan;
}

TensorOwner tensor_owner(std::string_view tensor_name) {
  const auto is_under = [&](std::string_view prefix, std::string_view rest) {
    return tensor_name.starts_with(prefix) && tensor_name.substr(prefix.size()).starts_with(rest);
  };
  if (std::ranges::any_of(kMtpPrefixes, [&](std::string_view prefix) { return is_under(prefix, {}); }))
    return TensorOwner::kDraft;
  const bool is_shared = is_under({}, "lm_head.") || std::ranges::any_of(kTrunkPrefixes, [&](std::string_view prefix) {
                           return is_under(prefix, "embed_tokens.") || is_under(prefix, "lm_head.");
                         });
  return is_shared ? TensorOwner::kShared : TensorOwner::kTarget;
}

std::unique_ptr<WeightPlan> plan_drafter(const WeightSource& source, const ModelConfig& config,
                                         const std::optional<SharedWeights>& shared) {
  auto plan = std::make_unique<WeightPlan>();
  WeightCatalog catalog(source, config.quant_method);
  WeightPlanner planner(catalog, *plan);
  ModelMapper mapper(planner, config, *plan);
  if (shared) {
    check_shared(*shared, config);
    plan->target.embed_tokens = shared->embed_tokens;
    plan->target.lm_head = shared->lm_head;
  } else {
    mapper.map_shared();
  }
  mapper.map_mtp();
  catalog.check_nothing_left();
  return plan;
}

LinearWeight tied_lm_head(const Tensor& embed_tokens) {
  return {.weight = embed_tokens,
          .scale = {},
          .global_scale = {},
          .format = embed_tokens.dtype() == DType::kF32 ? WeightFormat::kF32 : WeightFormat::kBF16};
}

}  // namespace foretoken
