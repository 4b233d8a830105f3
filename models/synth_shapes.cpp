#include "models/synth_shapes.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "core/error.h"

namespace foretoken {
namespace {

struct ReleasedShape {
  std::string_view name;
  ModelFamily family;
  int64_t hidden_size;
  int64_t num_layers;
  int64_t num_attention_heads;
  int64_t num_key_value_heads;
  int64_t linear_num_value_heads;
  int64_t intermediate_size;  // of a MoE: of routed and of shared experts
  int64_t num_experts;
  int64_t num_experts_per_tok;
  bool tied;
};

constexpr ModelFamily kDense = ModelFamily::kQwen3_5;
constexpr ModelFamily kMoe = ModelFamily::kQwen3_5Moe;
constexpr ModelFamily kNext = ModelFamily::kQwen3Next;

constexpr std::array<ReleasedShape, 11> kShapes{{
    {"qwen3.5-0.8b", kDense, 1024, 24, 8, 2, 16, 3584, 0, 0, true},
    {"qwen3.5-2b", kDense, 2048, 24, 8, 2, 16, 6144, 0, 0, true},
    {"qwen3.5-4b", kDense, 2560, 32, 16, 4, 32, 9216, 0, 0, true},
    {"qwen3.5-9b", kDense, 4096, 32, 16, 4, 32, 12288, 0, 0, false},
    {"qwen3.5-27b", kDense, 5120, 64, 24, 4, 48, 17408, 0, 0, false},
    {"qwen3.5-35b-a3b", kMoe, 2048, 40, 16, 2, 32, 512, 256, 8, false},
    {"qwen3.5-122b-a10b", kMoe, 3072, 48, 32, 2, 64, 1024, 256, 8, false},
    {"qwen3.5-397b-a17b", kMoe, 4096, 60, 32, 2, 64, 1024, 512, 10, false},
    {"qwen3.6-27b", kDense, 5120, 64, 24, 4, 48, 17408, 0, 0, false},
    {"qwen3.6-35b-a3b", kMoe, 2048, 40, 16, 2, 32, 512, 256, 8, false},
    {"qwen3-next-80b-a3b", kNext, 2048, 48, 16, 2, 32, 512, 512, 10, false},
}};

const ReleasedShape& find_shape(std::string_view name) {
  const auto found = std::ranges::find(kShapes, name, &ReleasedShape::name);
  if (found != kShapes.end()) return *found;
  std::string known;
  for (const ReleasedShape& shape : kShapes) known.append(known.empty() ? "" : ", ").append(shape.name);
  throw Error(ErrorCode::kInvalidArgument,
              {.what = "unknown synthetic model", .expected = "one of " + known, .got = std::string(name)});
}

uint64_t fnv1a(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return hash;
}

/// The power of two for which weights of `k` inputs have a standard deviation in (1/2, 1] of 1/sqrt(k). The integers' variance is
/// (255^2 - 1) / 12.
int weight_exponent(int64_t k) {
  int exponent = 0;
  for (uint64_t power = 1; power < 5419 * static_cast<uint64_t>(k); power *= 4) --exponent;
  return exponent;
}

/// Lists tensors by the names of the released checkpoints.
class TensorLister {
 public:
  TensorLister(const ModelConfig& config, const std::string& origin, uint64_t seed)
      : config_(config), origin_(origin), seed_(seed) {}

  std::vector<SynthTensor> run();

 private:
  void add(const std::string& name, DType dtype, const Shape& shape, int exponent, float offset = 0.0F) {
    list_.push_back({.tensor = {.name = name,
                                .dtype_name = std::string(to_string(dtype)),
                                .dtype = dtype,
                                .shape = shape,
                                .bytes = dtype_bytes(dtype, static_cast<size_t>(shape.num_elements())),
                                .origin = origin_},
                     .recipe = {.seed = seed_, .tensor_id = fnv1a(name), .exponent = exponent, .offset = offset}});
  }
  void weight(const std::string& name, const Shape& shape) {
    add(name, DType::kBF16, shape, weight_exponent(shape[shape.rank() - 1]));
  }
  /// Zero-centred: scales within 1 +- 1/8.
  void norm(const std::string& name, int64_t size) { add(name + ".weight", DType::kBF16, {size}, -10); }
  void layer(const std::string& prefix, bool full_attention);
  void attention(const std::string& prefix);
  void delta_net(const std::string& prefix);
  void mlp(const std::string& prefix, int64_t intermediate_size);
  void moe(const std::string& prefix);

  const ModelConfig& config_;
  const std::string& origin_;
  uint64_t seed_;
  std::vector<SynthTensor> list_;
};

std::vector<SynthTensor> TensorLister::run() {
  const int64_t hidden_size = config_.hidden_size;
  const std::string trunk = config_.family == kNext ? "model." : "model.language_model.";
  weight(trunk + "embed_tokens.weight", {config_.vocab_size, hidden_size});
  for (size_t i = 0; i < config_.layer_types.size(); ++i) {
    layer(trunk + "layers." + std::to_string(i) + ".", config_.layer_types[i] == LayerType::kFullAttention);
  }
  norm(trunk + "norm", hidden_size);
  if (!config_.tie_word_embeddings) weight("lm_head.weight", {config_.vocab_size, hidden_size});
  weight("mtp.fc.weight", {hidden_size, 2 * hidden_size});
  norm("mtp.pre_fc_norm_embedding", hidden_size);
  norm("mtp.pre_fc_norm_hidden", hidden_size);
  layer("mtp.layers.0.", /*full_attention=*/true);
  norm("mtp.norm", hidden_size);
  return std::move(list_);
}

void TensorLister::layer(const std::string& prefix, bool full_attention) {
  norm(prefix + "input_layernorm", config_.hidden_size);
  if (full_attention) {
    attention(prefix + "self_attn.");
  } else {
    delta_net(prefix + "linear_attn.");
  }
  norm(prefix + "post_attention_layernorm", config_.hidden_size);
  if (config_.is_moe()) {
    moe(prefix + "mlp.");
  } else {
    mlp(prefix + "mlp.", config_.intermediate_size);
  }
}

void TensorLister::attention(const std::string& prefix) {
  const int64_t query_size = config_.num_attention_heads * config_.head_dim;
  const int64_t kv_size = config_.num_key_value_heads * config_.head_dim;
  weight(prefix + "q_proj.weight", {2 * query_size, config_.hidden_size});
  weight(prefix + "k_proj.weight", {kv_size, config_.hidden_size});
  weight(prefix + "v_proj.weight", {kv_size, config_.hidden_size});
  weight(prefix + "o_proj.weight", {config_.hidden_size, query_size});
  norm(prefix + "q_norm", config_.head_dim);
  norm(prefix + "k_norm", config_.head_dim);
}

void TensorLister::delta_net(const std::string& prefix) {
  const int64_t num_value_heads = config_.linear_num_value_heads;
  const int64_t value_size = num_value_heads * config_.linear_value_head_dim;
  const int64_t channels = config_.conv_channels();
  if (config_.family == kNext) {
    weight(prefix + "in_proj_qkvz.weight", {channels + value_size, config_.hidden_size});
    weight(prefix + "in_proj_ba.weight", {2 * num_value_heads, config_.hidden_size});
  } else {
    weight(prefix + "in_proj_qkv.weight", {channels, config_.hidden_size});
    weight(prefix + "in_proj_z.weight", {value_size, config_.hidden_size});
    weight(prefix + "in_proj_b.weight", {num_value_heads, config_.hidden_size});
    weight(prefix + "in_proj_a.weight", {num_value_heads, config_.hidden_size});
  }
  weight(prefix + "out_proj.weight", {config_.hidden_size, value_size});
  weight(prefix + "conv1d.weight", {channels, 1, config_.linear_conv_kernel_dim});
  add(prefix + "A_log", DType::kF32, {num_value_heads}, -6);                            // rates exp(-2) to exp(2)
  add(prefix + "dt_bias", DType::kBF16, {num_value_heads}, -5, -4.0F);                  // softplus: steps of 0.0003 to 0.7
  add(prefix + "norm.weight", DType::kF32, {config_.linear_value_head_dim}, -9, 1.0F);  // a plain scale within 1 +- 1/4
}

void TensorLister::mlp(const std::string& prefix, int64_t intermediate_size) {
  weight(prefix + "gate_proj.weight", {intermediate_size, config_.hidden_size});
  weight(prefix + "up_proj.weight", {intermediate_size, config_.hidden_size});
  weight(prefix + "down_proj.weight", {config_.hidden_size, intermediate_size});
}

void TensorLister::moe(const std::string& prefix) {
  const int64_t inner = config_.moe_intermediate_size;
  weight(prefix + "gate.weight", {config_.num_experts, config_.hidden_size});
  if (config_.family == kNext) {
    for (int64_t expert = 0; expert < config_.num_experts; ++expert)
      mlp(prefix + "experts." + std::to_string(expert) + ".", inner);
  } else {
    weight(prefix + "experts.gate_up_proj", {config_.num_experts, 2 * inner, config_.hidden_size});
    weight(prefix + "experts.down_proj", {config_.num_experts, config_.hidden_size, inner});
  }
  mlp(prefix + "shared_expert.", config_.shared_expert_intermediate_size);
  weight(prefix + "shared_expert_gate.weight", {1, config_.hidden_size});
}

}  // namespace

std::vector<std::string> synth_model_names() {
  std::vector<std::string> names;
  for (const ReleasedShape& shape : kShapes) names.emplace_back(shape.name);
  return names;
}

nlohmann::json synth_config_json(const SynthSpec& spec) {
  const ReleasedShape& shape = find_shape(spec.model);
  if (spec.num_layers < 0 || spec.num_layers > shape.num_layers) {
    throw Error(ErrorCode::kInvalidArgument, {.what = "bad number of layers for " + spec.model,
                                              .expected = "1 to " + std::to_string(shape.num_layers),
                                              .got = std::to_string(spec.num_layers)});
  }
  const bool is_next = shape.family == kNext;
  const std::string type(to_string(shape.family));
  nlohmann::json text{
      {"model_type", is_next ? type : type + "_text"},
      {"hidden_size", shape.hidden_size},
      {"num_hidden_layers", spec.num_layers == 0 ? shape.num_layers : spec.num_layers},
      {"num_attention_heads", shape.num_attention_heads},
      {"num_key_value_heads", shape.num_key_value_heads},
      {"head_dim", 256},
      {"vocab_size", is_next ? 151936 : 248320},
      {"max_position_embeddings", 262144},
      {"linear_num_key_heads", 16},
      {"linear_num_value_heads", shape.linear_num_value_heads},
      {"linear_key_head_dim", 128},
      {"linear_value_head_dim", 128},
      {"linear_conv_kernel_dim", 4},
      {"full_attention_interval", 4},
      {"attention_bias", false},
      {"attn_output_gate", true},
      {"hidden_act", "silu"},
      {"rms_norm_eps", 1e-6},
      {"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 1e7}, {"partial_rotary_factor", 0.25}}},
      {"eos_token_id", is_next ? 151645 : 248044},
      {"dtype", "bfloat16"},
      {"tie_word_embeddings", shape.tied},
      {"mtp_num_hidden_layers", 1},
  };
  if (shape.num_experts == 0) {
    text["intermediate_size"] = shape.intermediate_size;
  } else {
    text["num_experts"] = shape.num_experts;
    text["num_experts_per_tok"] = shape.num_experts_per_tok;
    text["moe_intermediate_size"] = shape.intermediate_size;
    text["shared_expert_intermediate_size"] = shape.intermediate_size;
    text["norm_topk_prob"] = true;
  }
  if (is_next) {
    text.erase("mtp_num_hidden_layers");  // as released: the family has one layer without saying so
    text["architectures"] = {"Qwen3NextForCausalLM"};
    return text;
  }
  const char* architecture = shape.family == kMoe ? "Qwen3_5MoeForConditionalGeneration" : "Qwen3_5ForConditionalGeneration";
  return {{"architectures", {architecture}}, {"model_type", type}, {"text_config", text}, {"tie_word_embeddings", shape.tied}};
}

std::vector<SynthTensor> synth_tensors(const ModelConfig& config, const std::string& origin, uint64_t seed) {
  return TensorLister(config, origin, seed).run();
}

}  // namespace foretoken
