// config.json of a checkpoint, flat or with a nested text_config, checked and with the families' defaults filled in.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace foretoken {

enum class ModelFamily : uint8_t { kQwen3_5, kQwen3_5Moe, kQwen3Next };
enum class LayerType : uint8_t { kLinearAttention, kFullAttention };

/// "qwen3_5", "qwen3_5_moe", "qwen3_next".
[[nodiscard]] std::string_view to_string(ModelFamily family);

struct ModelConfig {
  ModelFamily family = ModelFamily::kQwen3_5;
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;  // dense feed-forward; 0 in a MoE
  int64_t num_hidden_layers = 0;
  int64_t num_attention_heads = 0;
  int64_t num_key_value_heads = 0;
  int64_t head_dim = 0;
  int64_t vocab_size = 0;
  int64_t max_position_embeddings = 0;
  int64_t linear_num_key_heads = 0;
  int64_t linear_num_value_heads = 0;
  int64_t linear_key_head_dim = 0;
  int64_t linear_value_head_dim = 0;
  int64_t linear_conv_kernel_dim = 4;
  int64_t num_experts = 0;  // 0: dense
  int64_t num_experts_per_tok = 0;
  int64_t moe_intermediate_size = 0;
  int64_t shared_expert_intermediate_size = 0;
  bool norm_topk_prob = true;
  float rms_norm_eps = 1e-6F;
  double rope_theta = 1e7;
  double partial_rotary_factor = 0.25;
  bool tie_word_embeddings = false;
  int64_t mtp_num_hidden_layers = 0;  // as the config says; whether a head is there, the tensors decide
  bool mtp_use_dedicated_embeddings = false;
  std::vector<LayerType> layer_types;
  std::vector<int32_t> eos_token_ids;  // of generation_config.json, else of config.json
  std::string quant_method;            // as JSON, for messages about tensors that are missing; precision is what the tensors say

  [[nodiscard]] bool is_moe() const { return num_experts > 0; }
  /// Rotated dimensions of a head, even.
  [[nodiscard]] int64_t rotary_dim() const;
  /// Channels of the causal convolution: [q | k | v].
  [[nodiscard]] int64_t conv_channels() const;
};

/// Parses and checks the text of a config.json; `origin` names it in errors.
/// Throws Unsupported for variants that the layers do not compute (another activation, attention biases, no output gate, scaled
/// rotary embeddings) and FormatError that names the key, what it must be and what it is: missing keys without a default, wrong
/// types, NaN, values out of a sane range, head counts that do not divide, unknown model types, more than one MTP layer is NOT an
/// error here (see load_model).
[[nodiscard]] ModelConfig parse_model_config(std::string_view json_text, const std::string& origin);

/// config.json (and generation_config.json when there) of a checkpoint directory. Throws FormatError or InvalidArgument (no such
/// file).
[[nodiscard]] ModelConfig load_model_config(const std::filesystem::path& directory);

}  // namespace foretoken
