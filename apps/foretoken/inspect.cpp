// `foretoken inspect`.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "apps/foretoken/engine_setup.h"
#include "apps/foretoken/exit_status.h"
#include "models/memory_report.h"

namespace foretoken::cli {
namespace {

using Json = nlohmann::ordered_json;

/// What a model takes for one sequence of `context` tokens.
struct Needs {
  int64_t context = 0;
  DType kv_dtype = DType::kBF16;
  DType draft_kv_dtype = DType::kBF16;
  MemoryReport weights;
  uint64_t kv_bytes = 0;
  uint64_t draft_kv_bytes = 0;
  uint64_t state_bytes = 0;
  uint64_t num_parameters = 0;

  [[nodiscard]] uint64_t total() const {
    return weights.target_bytes + weights.draft_bytes + kv_bytes + draft_kv_bytes + state_bytes;
  }
};

Needs needs_of(const ModelFiles& files, int64_t context, DType kv_dtype, DType draft_kv_dtype) {
  Needs needs{.context = std::min(context, files.config.max_position_embeddings),
              .kv_dtype = kv_dtype,
              .draft_kv_dtype = draft_kv_dtype,
              .weights = memory_report(*files.source, files.config),
              .state_bytes = recurrent_state_bytes(files.config)};
  const auto tokens = static_cast<uint64_t>(needs.context);
  needs.kv_bytes = tokens * target_kv_bytes_per_token(files.config, kv_dtype);
  if (needs.weights.mtp_absent_reason.empty()) {
    needs.draft_kv_bytes = tokens * draft_kv_bytes_per_token(files.config, draft_kv_dtype);
  }
  for (const PartReport& part : needs.weights.parts) needs.num_parameters += part.num_parameters;
  return needs;
}

int64_t count_layers(const ModelConfig& config, LayerType type) { return std::ranges::count(config.layer_types, type); }

std::vector<std::pair<std::string, int64_t>> shapes_of(const ModelConfig& config) {
  std::vector<std::pair<std::string, int64_t>> shapes{
      {"hidden_size", config.hidden_size},
      {"num_hidden_layers", config.num_hidden_layers},
      {"linear_attention_layers", count_layers(config, LayerType::kLinearAttention)},
      {"full_attention_layers", count_layers(config, LayerType::kFullAttention)},
      {"num_attention_heads", config.num_attention_heads},
      {"num_key_value_heads", config.num_key_value_heads},
      {"head_dim", config.head_dim},
      {"linear_num_key_heads", config.linear_num_key_heads},
      {"linear_num_value_heads", config.linear_num_value_heads},
      {"linear_key_head_dim", config.linear_key_head_dim},
      {"linear_value_head_dim", config.linear_value_head_dim}};
  if (config.is_moe()) {
    shapes.insert(shapes.end(), {{"num_experts", config.num_experts},
                                 {"num_experts_per_tok", config.num_experts_per_tok},
                                 {"moe_intermediate_size", config.moe_intermediate_size},
                                 {"shared_expert_intermediate_size", config.shared_expert_intermediate_size}});
  } else {
    shapes.emplace_back("intermediate_size", config.intermediate_size);
  }
  shapes.emplace_back("vocab_size", config.vocab_size);
  shapes.emplace_back("max_position_embeddings", config.max_position_embeddings);
  return shapes;
}

/// "mixed: nvfp4 71 %, fp8-row 29 %", of the bytes of linear weights.
std::string describe(const std::vector<FormatShare>& shares) {
  uint64_t total = 0;
  for (const FormatShare& share : shares) total += share.bytes;
  if (shares.size() == 1) return std::string(to_string(shares.front().format));
  std::string text;
  for (const FormatShare& share : shares) {
    text += fmt::format("{}{} {:.0f} %", text.empty() ? "mixed: " : ", ", to_string(share.format),
                        100.0 * static_cast<double>(share.bytes) / static_cast<double>(total));
  }
  return text;
}

Json shares_json(const std::vector<FormatShare>& shares) {
  Json json = Json::object();
  for (const FormatShare& share : shares) json[std::string(to_string(share.format))] = share.bytes;
  return json;
}

Json tensors_json(const WeightSource& source) {
  Json tensors = Json::array();
  for (const SourceTensor& tensor : source.tensors()) {
    tensors.push_back({{"name", tensor.name},
                       {"dtype", tensor.dtype_name},
                       {"shape", std::vector<int64_t>(tensor.shape.extents().begin(), tensor.shape.extents().end())},
                       {"bytes", tensor.bytes}});
  }
  return tensors;
}

void print_json(const ModelFiles& files, const Needs& needs) {
  const MemoryReport& weights = needs.weights;
  Json modules = Json::array();
  for (const PartReport& part : weights.parts) {
    modules.push_back({{"module", to_string(part.part)},
                       {"of", part.draft ? "draft head" : "target"},
                       {"precision", to_string(part.format)},
                       {"parameters", part.num_parameters},
                       {"bytes", part.bytes},
                       {"bytes_per_step", part.step_bytes}});
  }
  Json shapes = Json::object();
  for (const auto& [name, value] : shapes_of(files.config)) shapes[name] = value;
  const bool has_head = weights.mtp_absent_reason.empty();
  Json json{
      {"model", files.name},
      {"family", to_string(files.config.family)},
      {"shapes", shapes},
      {"tied_lm_head", files.config.tie_word_embeddings},
      {"eos_token_ids", files.config.eos_token_ids},
      {"parameters", needs.num_parameters},
      {"mtp", {{"present", has_head}, {"reason", has_head ? Json(nullptr) : Json(weights.mtp_absent_reason)}}},
      {"linear_weight_bytes", {{"target", shares_json(weights.target_shares)}, {"draft", shares_json(weights.draft_shares)}}},
      {"modules", modules},
      {"memory_bytes",
       {{"context", needs.context},
        {"kv_dtype", dtype_name(needs.kv_dtype)},
        {"draft_kv_dtype", dtype_name(needs.draft_kv_dtype)},
        {"target_weights", weights.target_bytes},
        {"draft_weights", weights.draft_bytes},
        {"target_kv", needs.kv_bytes},
        {"draft_kv", needs.draft_kv_bytes},
        {"recurrent_states", needs.state_bytes},
        {"total", needs.total()}}},
      {"step_bytes", {{"target", weights.target_step_bytes}, {"draft", weights.draft_step_bytes}}},
      {"tensors", tensors_json(*files.source)}};
  fmt::print("{}\n", json.dump(-1, ' ', false, Json::error_handler_t::replace));
}

std::string megabytes(uint64_t bytes) { return fmt::format("{:.2f} MB", static_cast<double>(bytes) / 1e6); }

void print_text(const ModelFiles& files, const Needs& needs, bool list_tensors) {
  const MemoryReport& weights = needs.weights;
  fmt::print("{}\n  family                              {}\n", files.name, to_string(files.config.family));
  for (const auto& [name, value] : shapes_of(files.config)) fmt::print("  {:<34}  {}\n", name, value);
  fmt::print("  {:<34}  {}\n", "tensors", files.source->tensors().size());
  fmt::print("  {:<34}  {:.1f} M\n", "parameters", static_cast<double>(needs.num_parameters) / 1e6);
  const bool has_head = weights.mtp_absent_reason.empty();
  fmt::print("  {:<34}  {}\n", "draft head (MTP)", has_head ? "present" : "none that can be used: " + weights.mtp_absent_reason);
  fmt::print("  {:<34}  {}\n", "linear weights of the target", describe(weights.target_shares));
  if (has_head) fmt::print("  {:<34}  {}\n", "linear weights of the draft head", describe(weights.draft_shares));
  fmt::print("\n");
  fmt::print("{:<12} {:<14} {:<10} {:>14} {:>16} {:>16}\n", "of", "module", "precision", "parameters", "memory", "read per step");
  for (const PartReport& part : weights.parts) {
    fmt::print("{:<12} {:<14} {:<10} {:>14} {:>16} {:>16}\n", part.draft ? "draft head" : "target", to_string(part.part),
               to_string(part.format), part.num_parameters, megabytes(part.bytes), megabytes(part.step_bytes));
  }
  fmt::print("\nmemory for one sequence of {} tokens, KV cache of the target {}, of the drafter {}\n", needs.context,
             dtype_name(needs.kv_dtype), dtype_name(needs.draft_kv_dtype));
  const std::vector<std::pair<std::string_view, uint64_t>> rows{
      {"target weights", weights.target_bytes}, {"draft head weights", weights.draft_bytes},
      {"target KV cache", needs.kv_bytes},      {"drafter KV cache", needs.draft_kv_bytes},
      {"recurrent states", needs.state_bytes},  {"in all, without activations", needs.total()}};
  for (const auto& [name, bytes] : rows) fmt::print("  {:<34}  {}\n", name, megabytes(bytes));
  fmt::print("\nweights read\n  {:<34}  {}\n", "by a target step", megabytes(weights.target_step_bytes));
  if (has_head) {
    fmt::print("  {:<34}  {}\n", "by a draft step, LM head included", megabytes(weights.draft_step_bytes));
  }
  if (!list_tensors) return;
  fmt::print("\n");
  for (const SourceTensor& tensor : files.source->tensors()) {
    fmt::print("{}  {} {}  {} bytes\n", tensor.name, tensor.dtype_name, tensor.shape.to_string(), tensor.bytes);
  }
}

}  // namespace

int run_inspect(const Options& options) {
  if (options.argument().empty()) options.fail("no model: expected a checkpoint folder or synth:NAME");
  const int64_t context = options.integer("context", 1, INT32_MAX);
  const DType kv_dtype = kv_dtype_option(options, "kv-dtype").value_or(DType::kBF16);
  const DType draft_kv_dtype = kv_dtype_option(options, "draft-kv-dtype").value_or(kv_dtype);
  const ModelFiles files = open_model_files(options.argument());
  const Needs needs = needs_of(files, context, kv_dtype, draft_kv_dtype);
  if (options.flag("json")) {
    print_json(files, needs);
  } else {
    print_text(files, needs, options.flag("tensors"));
  }
  return kExitOk;
}

}  // namespace foretoken::cli
