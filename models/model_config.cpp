#include "models/model_config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "core/error.h"
#include "models/checkpoint_json.h"

namespace foretoken {
namespace {

using nlohmann::json;

constexpr int64_t kDefaultFullAttentionInterval = 4;

/// A value as it is shown in a message: JSON, cut when long.
std::string shown(const json& value) {
  constexpr size_t kMaxShown = 60;
  const std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  return text.size() <= kMaxShown ? text : text.substr(0, kMaxShown) + "...";
}

/// Reads typed, range-checked members; null counts as absent, as in the files that transformers writes.
class Reader {
 public:
  /// Looks keys up in `objects`, the first that has one wins.
  Reader(std::string origin, std::vector<const json*> objects) : origin_(std::move(origin)), objects_(std::move(objects)) {}

  [[nodiscard]] const json* find(std::string_view key) const {
    for (const json* object : objects_) {
      const auto found = object->find(key);
      if (found != object->end() && !found->is_null()) return &*found;
    }
    return nullptr;
  }

  int64_t integer(std::string_view key, int64_t low, int64_t high, std::optional<int64_t> fallback = std::nullopt) const {
    const json* value = find(key);
    if (value == nullptr && fallback) return *fallback;
    const std::string expected = "an integer in [" + std::to_string(low) + ", " + std::to_string(high) + "]";
    if (value == nullptr) fail(key, expected, "nothing");
    return to_integer(key, *value, low, high, expected);
  }

  double real(std::string_view key, double low, double high, double fallback) const {
    const json* value = find(key);
    if (value == nullptr) return fallback;
    const bool fits = value->is_number() && value->get<double>() >= low && value->get<double>() <= high;
    if (!fits) fail(key, "a number in [" + json(low).dump() + ", " + json(high).dump() + "]", shown(*value));
    return value->get<double>();
  }

  bool boolean(std::string_view key, bool fallback) const {
    const json* value = find(key);
    if (value == nullptr) return fallback;
    if (!value->is_boolean()) fail(key, "true or false", shown(*value));
    return value->get<bool>();
  }

  std::string text(std::string_view key, std::string_view fallback) const {
    const json* value = find(key);
    if (value == nullptr) return std::string(fallback);
    if (!value->is_string()) fail(key, "a string", shown(*value));
    return value->get<std::string>();
  }

  int64_t to_integer(std::string_view key, const json& value, int64_t low, int64_t high, const std::string& expected) const {
    const bool fits = value.is_number_integer() && !(value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX) &&
                      value.get<int64_t>() >= low && value.get<int64_t>() <= high;
    if (!fits) fail(key, expected, shown(value));
    return value.get<int64_t>();
  }

  [[noreturn]] void fail(std::string_view key, const std::string& expected, const std::string& got) const {
    throw Error(ErrorCode::kFormatError,
                {.what = "bad value of `" + std::string(key) + "`", .where = origin_, .expected = expected, .got = got});
  }

  /// A value that is right in itself but names something this library does not compute.
  [[noreturn]] void unsupported(std::string_view key, const std::string& expected, const std::string& got) const {
    throw Error(ErrorCode::kUnsupported,
                {.what = "unsupported value of `" + std::string(key) + "`", .where = origin_, .expected = expected, .got = got});
  }

  [[nodiscard]] const std::string& origin() const { return origin_; }

 private:
  std::string origin_;
  std::vector<const json*> objects_;
};

std::optional<ModelFamily> family_of(std::string_view model_type, std::string_view architecture) {
  if (model_type == "qwen3_5" || model_type == "qwen3_5_text") return ModelFamily::kQwen3_5;
  if (model_type == "qwen3_5_moe" || model_type == "qwen3_5_moe_text") return ModelFamily::kQwen3_5Moe;
  if (model_type == "qwen3_next") return ModelFamily::kQwen3Next;
  if (!model_type.empty()) return std::nullopt;
  if (architecture.starts_with("Qwen3_5Moe")) return ModelFamily::kQwen3_5Moe;
  if (architecture.starts_with("Qwen3_5For")) return ModelFamily::kQwen3_5;
  if (architecture.starts_with("Qwen3NextFor")) return ModelFamily::kQwen3Next;
  return std::nullopt;
}

ModelFamily read_family(const Reader& reader) {
  const std::string model_type = reader.text("model_type", "");
  std::string architecture;
  if (const json* list = reader.find("architectures"); list != nullptr) {
    const bool valid = list->is_array() && !list->empty() && list->front().is_string();
    if (!valid) reader.fail("architectures", "a list of names", shown(*list));
    architecture = list->front().get<std::string>();
  }
  const std::optional<ModelFamily> family = family_of(model_type, architecture);
  if (!family) {
    reader.fail(model_type.empty() ? "architectures" : "model_type",
                "qwen3_5, qwen3_5_moe or qwen3_next (or the text part of one)",
                model_type.empty() ? (architecture.empty() ? "nothing" : architecture) : model_type);
  }
  return *family;
}

void read_sizes(const Reader& reader, ModelConfig& config) {
  constexpr int64_t kMaxWidth = 1 << 20;
  constexpr int64_t kMaxHeads = 4096;
  config.hidden_size = reader.integer("hidden_size", 1, kMaxWidth);
  config.num_hidden_layers = reader.integer("num_hidden_layers", 1, 4096);
  config.num_attention_heads = reader.integer("num_attention_heads", 1, kMaxHeads);
  config.num_key_value_heads = reader.integer("num_key_value_heads", 1, kMaxHeads);
  config.head_dim = reader.integer("head_dim", 2, 4096, 256);
  config.vocab_size = reader.integer("vocab_size", 1, 1 << 24);
  config.max_position_embeddings = reader.integer("max_position_embeddings", 1, 1 << 28);
  config.linear_num_key_heads = reader.integer("linear_num_key_heads", 1, kMaxHeads, 16);
  config.linear_num_value_heads = reader.integer("linear_num_value_heads", 1, kMaxHeads, 32);
  config.linear_key_head_dim = reader.integer("linear_key_head_dim", 1, 4096, 128);
  config.linear_value_head_dim = reader.integer("linear_value_head_dim", 1, 4096, 128);
  config.linear_conv_kernel_dim = reader.integer("linear_conv_kernel_dim", 1, 64, 4);
  if (config.linear_conv_kernel_dim != 4) {
    reader.unsupported("linear_conv_kernel_dim", "4", std::to_string(config.linear_conv_kernel_dim));
  }
  if (config.num_attention_heads % config.num_key_value_heads != 0) {
    reader.fail("num_key_value_heads", "a divisor of num_attention_heads " + std::to_string(config.num_attention_heads),
                std::to_string(config.num_key_value_heads));
  }
  if (config.linear_num_value_heads % config.linear_num_key_heads != 0) {
    reader.fail("linear_num_key_heads", "a divisor of linear_num_value_heads " + std::to_string(config.linear_num_value_heads),
                std::to_string(config.linear_num_key_heads));
  }
  if (config.family == ModelFamily::kQwen3_5) {
    config.intermediate_size = reader.integer("intermediate_size", 1, kMaxWidth);
    return;
  }
  config.num_experts = reader.integer("num_experts", 1, 65536);
  config.num_experts_per_tok = reader.integer("num_experts_per_tok", 1, config.num_experts);
  config.moe_intermediate_size = reader.integer("moe_intermediate_size", 1, kMaxWidth);
  config.shared_expert_intermediate_size = reader.integer("shared_expert_intermediate_size", 1, kMaxWidth);
  config.norm_topk_prob = reader.boolean("norm_topk_prob", true);
}

void read_rope(const Reader& reader, ModelConfig& config) {
  std::vector<const json*> objects;
  for (const std::string_view key : {"rope_parameters", "rope_scaling"}) {
    const json* object = reader.find(key);
    if (object == nullptr) continue;
    if (!object->is_object()) reader.fail(key, "an object", shown(*object));
    objects.push_back(object);
  }
  const Reader nested(reader.origin() + ": rope parameters", objects);
  for (const std::string_view key : {"rope_type", "type"}) {
    const std::string type = nested.text(key, "default");
    if (type != "default" && type != "mrope") nested.unsupported(key, "default", type);
  }
  // Newer files keep both keys in rope_parameters, older ones beside it.
  config.rope_theta = nested.real("rope_theta", 1.0, 1e15, reader.real("rope_theta", 1.0, 1e15, config.rope_theta));
  config.partial_rotary_factor = nested.real("partial_rotary_factor", 0.0, 1.0,
                                             reader.real("partial_rotary_factor", 0.0, 1.0, config.partial_rotary_factor));
  const double rotary = static_cast<double>(config.head_dim) * config.partial_rotary_factor;
  const auto rounded = static_cast<int64_t>(std::llround(rotary));
  if (rounded < 2 || rounded % 2 != 0 || std::fabs(rotary - static_cast<double>(rounded)) > 1e-6) {
    reader.fail("partial_rotary_factor", "an even number of dimensions of head_dim " + std::to_string(config.head_dim),
                json(config.partial_rotary_factor).dump());
  }
}

void read_layer_types(const Reader& reader, ModelConfig& config) {
  const auto num_layers = static_cast<size_t>(config.num_hidden_layers);
  const json* types = reader.find("layer_types");
  if (types == nullptr) {
    const int64_t interval = reader.integer("full_attention_interval", 1, 4096, kDefaultFullAttentionInterval);
    for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
      config.layer_types.push_back((layer + 1) % interval == 0 ? LayerType::kFullAttention : LayerType::kLinearAttention);
    }
    return;
  }
  if (!types->is_array() || types->size() != num_layers) {
    reader.fail("layer_types", "a list of num_hidden_layers = " + std::to_string(num_layers) + " names",
                types->is_array() ? std::to_string(types->size()) + " entries" : shown(*types));
  }
  for (const json& type : *types) {
    const bool linear = type == "linear_attention";
    if (!linear && type != "full_attention") reader.fail("layer_types", "linear_attention or full_attention", shown(type));
    config.layer_types.push_back(linear ? LayerType::kLinearAttention : LayerType::kFullAttention);
  }
}

/// Refuses variants of the architecture that the layers do not compute.
void check_variants(const Reader& reader) {
  if (const std::string act = reader.text("hidden_act", "silu"); act != "silu") reader.unsupported("hidden_act", "silu", act);
  if (reader.boolean("attention_bias", false)) reader.unsupported("attention_bias", "false", "true");
  if (!reader.boolean("attn_output_gate", true)) reader.unsupported("attn_output_gate", "true", "false");
  if (reader.integer("decoder_sparse_step", 0, 4096, 1) != 1) {
    reader.unsupported("decoder_sparse_step", "1", shown(*reader.find("decoder_sparse_step")));
  }
  if (const json* dense = reader.find("mlp_only_layers"); dense != nullptr && (!dense->is_array() || !dense->empty())) {
    reader.unsupported("mlp_only_layers", "[]", shown(*dense));
  }
}

/// `eos_token_id`, one id or a list; nothing when the key is absent.
std::optional<std::vector<int32_t>> read_eos(const Reader& reader, int64_t vocab_size) {
  const json* value = reader.find("eos_token_id");
  if (value == nullptr) return std::nullopt;
  const std::string expected = "token ids in [0, " + std::to_string(vocab_size - 1) + "]";
  const json list = value->is_array() ? *value : json::array({*value});
  std::vector<int32_t> ids;
  for (const json& id : list) {
    ids.push_back(static_cast<int32_t>(reader.to_integer("eos_token_id", id, 0, vocab_size - 1, expected)));
  }
  return ids;
}

json parse_object(std::string_view text, const std::string& origin) {
  json root = parse_json(text, origin);
  if (!root.is_object()) {
    throw Error(ErrorCode::kFormatError,
                {.what = "wrong kind of JSON", .where = origin, .expected = "an object", .got = root.type_name()});
  }
  return root;
}

}  // namespace

std::string_view to_string(ModelFamily family) {
  switch (family) {
    case ModelFamily::kQwen3_5: return "qwen3_5";
    case ModelFamily::kQwen3_5Moe: return "qwen3_5_moe";
    case ModelFamily::kQwen3Next: return "qwen3_next";
  }
  return "unknown";
}

int64_t ModelConfig::rotary_dim() const { return std::llround(static_cast<double>(head_dim) * partial_rotary_factor); }

int64_t ModelConfig::conv_channels() const {
  return 2 * linear_num_key_heads * linear_key_head_dim + linear_num_value_heads * linear_value_head_dim;
}

ModelConfig parse_model_config(std::string_view json_text, const std::string& origin) {
  const json root = parse_object(json_text, origin);
  const Reader top(origin, {&root});
  const json* nested = top.find("text_config");
  if (nested != nullptr && !nested->is_object()) top.fail("text_config", "an object", shown(*nested));
  const Reader text(origin, nested == nullptr ? std::vector<const json*>{&root} : std::vector<const json*>{nested, &root});

  ModelConfig config;
  config.family = read_family(text);
  check_variants(text);
  read_sizes(text, config);
  config.rms_norm_eps = static_cast<float>(text.real("rms_norm_eps", 1e-12, 0.1, 1e-6));
  read_rope(text, config);
  read_layer_types(text, config);
  // transformers ties by the outermost key.
  config.tie_word_embeddings = top.boolean("tie_word_embeddings", text.boolean("tie_word_embeddings", false));
  const int64_t default_mtp_layers = config.family == ModelFamily::kQwen3Next ? 1 : 0;
  config.mtp_num_hidden_layers =
      text.integer("mtp_num_hidden_layers", 0, 64, text.integer("num_nextn_predict_layers", 0, 64, default_mtp_layers));
  config.mtp_use_dedicated_embeddings = text.boolean("mtp_use_dedicated_embeddings", false);
  config.eos_token_ids = read_eos(text, config.vocab_size).value_or(std::vector<int32_t>{});
  const json* quantization = text.find("quantization_config");
  if (quantization != nullptr && quantization->is_object() && quantization->contains("quant_method")) {
    config.quant_method = shown((*quantization)["quant_method"]);
  }
  return config;
}

ModelConfig load_model_config(const std::filesystem::path& directory) {
  std::error_code error;
  if (!std::filesystem::is_directory(directory, error)) {
    throw Error(ErrorCode::kInvalidArgument, {.what = "no such checkpoint directory", .where = directory.string()});
  }
  const std::filesystem::path path = directory / "config.json";
  ModelConfig config = parse_model_config(read_text_file(path), path.string());
  const std::filesystem::path generation = directory / "generation_config.json";
  if (std::filesystem::exists(generation, error)) {
    const json root = parse_object(read_text_file(generation), generation.string());
    auto eos = read_eos(Reader(generation.string(), {&root}), config.vocab_size);
    if (eos) config.eos_token_ids = std::move(*eos);
  }
  return config;
}

}  // namespace foretoken
