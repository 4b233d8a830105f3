#include "models/quantize_plan.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/error.h"

namespace foretoken {
namespace {

constexpr std::array<std::string_view, 3> kTrunkLayers{"model.language_model.layers.", "language_model.model.layers.",
                                                       "model.layers."};
constexpr std::array<std::string_view, 4> kMtpLayers{"mtp.layers.", "model.mtp.layers.", "language_model.mtp.layers.",
                                                     "model.language_model.mtp.layers."};
constexpr std::array<std::string_view, 11> kLinearLayers{"q_proj",      "k_proj",    "v_proj",       "o_proj",
                                                         "in_proj_qkv", "in_proj_z", "in_proj_qkvz", "out_proj",
                                                         "gate_proj",   "up_proj",   "down_proj"};
constexpr std::array<std::string_view, 9> kQuantizedSuffixes{
    ".weight_scale_inv", ".weight_scale", ".weight_scale_2", ".weight_global_scale", ".weight_packed", ".weight_zero_point",
    ".qweight",          ".qzeros",       ".scales"};
constexpr std::string_view kWeight = ".weight";
constexpr std::string_view kFusedGateUp = ".experts.gate_up_proj";
constexpr std::string_view kFusedDown = ".experts.down_proj";

enum class Part : uint8_t { kOther, kTarget, kMtp, kLmHead };

bool begins_with_any(std::string_view name, std::span<const std::string_view> prefixes) {
  return std::ranges::any_of(prefixes, [&](std::string_view prefix) { return name.starts_with(prefix); });
}

Part part_of(std::string_view name) {
  if (begins_with_any(name, kMtpLayers)) return Part::kMtp;
  if (begins_with_any(name, kTrunkLayers)) return Part::kTarget;
  return name == "lm_head.weight" || name.ends_with(".lm_head.weight") ? Part::kLmHead : Part::kOther;
}

/// "a.b.q_proj" of "a.b.q_proj.weight"; the name itself where it has no such end.
std::string_view layer_of(std::string_view name) {
  return name.ends_with(kWeight) ? name.substr(0, name.size() - kWeight.size()) : name;
}

bool is_linear(std::string_view name) {
  if (!name.ends_with(kWeight)) return false;
  const std::string_view layer = layer_of(name);
  return std::ranges::find(kLinearLayers, layer.substr(layer.rfind('.') + 1)) != kLinearLayers.end();
}

bool is_fused_experts(std::string_view name) { return name.ends_with(kFusedGateUp) || name.ends_with(kFusedDown); }

[[noreturn]] void refuse(const SourceTensor& tensor, const std::string& what, const std::string& expected) {
  throw Error(ErrorCode::kInvalidArgument, {.what = "cannot quantise: " + what,
                                            .where = "tensor " + tensor.name + " in " + tensor.origin,
                                            .expected = expected,
                                            .got = tensor.dtype_name + " " + tensor.shape.to_string()});
}

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

class Planner {
 public:
  Planner(const WeightSource& source, const QuantizeOptions& options) : source_(source), options_(options) {}

  QuantizePlan plan() {
    const auto tensors = source_.tensors();
    for (const SourceTensor& tensor : tensors) check_plain(tensor);
    for (size_t i = 0; i < tensors.size(); ++i) plan_tensor(i);
    if (options_.scope.lm_head && !has_lm_head_) plan_tied_head();
    if (num_matrices_ == 0) {
      throw Error(ErrorCode::kInvalidArgument,
                  {.what = "there is no linear layer to quantise in the scope that was asked for", .where = source_.name()});
    }
    if (!options_.scope.lm_head && !has_lm_head_) plan_.left_out.insert(plan_.left_out.begin(), "lm_head");
    return std::move(plan_);
  }

 private:
  static void check_plain(const SourceTensor& tensor) {
    const auto names_scale = [&](std::string_view suffix) { return tensor.name.ends_with(suffix); };
    if (tensor.dtype == DType::kE4M3 || std::ranges::any_of(kQuantizedSuffixes, names_scale)) {
      refuse(tensor, "the checkpoint is quantised already", "weights in F32 or BF16 and no scales");
    }
    if (!tensor.dtype) refuse(tensor, "the dtype is not supported", "F32, BF16, I32, I64 or U8");
  }

  [[nodiscard]] bool in_scope(Part part) const {
    switch (part) {
      case Part::kTarget: return options_.scope.target;
      case Part::kMtp: return options_.scope.mtp;
      case Part::kLmHead: return options_.scope.lm_head;
      case Part::kOther: return false;
    }
    return false;
  }

  void plan_tensor(size_t index) {
    const SourceTensor& tensor = source_.tensors()[index];
    const Part part = part_of(tensor.name);
    has_lm_head_ = has_lm_head_ || part == Part::kLmHead;
    const bool fused = is_fused_experts(tensor.name);
    if (in_scope(part) && (part == Part::kLmHead || fused || is_linear(tensor.name))) {
      if (fused) {
        plan_experts(index);
      } else {
        if (tensor.shape.rank() != 2) refuse(tensor, "it is not a matrix", "[N, K]");
        plan_matrix(index, 0, tensor.shape[0], tensor.shape[1], std::string(layer_of(tensor.name)));
      }
      return;
    }
    plan_.jobs.push_back({.source = index, .outputs = {{.name = tensor.name, .dtype = *tensor.dtype, .shape = tensor.shape}}});
    if (tensor.shape.rank() < 2 || !(fused || tensor.name.ends_with(kWeight))) return;
    const std::string layer(fused ? tensor.name.substr(0, tensor.name.rfind('.')) : layer_of(tensor.name));
    if (std::ranges::find(plan_.left_out, layer) == plan_.left_out.end()) plan_.left_out.push_back(layer);
  }

  /// Gate rows come before up rows.
  void plan_experts(size_t index) {
    const SourceTensor& tensor = source_.tensors()[index];
    const bool has_two = tensor.name.ends_with(kFusedGateUp);
    if (tensor.shape.rank() != 3 || (has_two && tensor.shape[1] % 2 != 0)) {
      refuse(tensor, "these are not stacked experts", has_two ? "[E, 2 I, H]" : "[E, H, I]");
    }
    const int64_t rows = has_two ? tensor.shape[1] / 2 : tensor.shape[1];
    const int64_t columns = tensor.shape[2];
    const std::string experts = tensor.name.substr(0, tensor.name.rfind('.') + 1);
    for (int64_t e = 0; e < tensor.shape[0]; ++e) {
      const std::string expert = experts + std::to_string(e) + ".";
      const int64_t first_row = e * tensor.shape[1];
      plan_matrix(index, first_row, rows, columns, expert + (has_two ? "gate_proj" : "down_proj"));
      if (has_two) plan_matrix(index, first_row + rows, rows, columns, expert + "up_proj");
    }
  }

  void plan_matrix(size_t index, int64_t first_row, int64_t rows, int64_t columns, const std::string& layer) {
    const SourceTensor& tensor = source_.tensors()[index];
    if (tensor.dtype != DType::kF32 && tensor.dtype != DType::kBF16) refuse(tensor, "it is not a plain weight", "F32 or BF16");
    if (rows == 0 || columns == 0) refuse(tensor, "it is empty", "rows and columns");
    if (options_.format == WeightFormat::kNvfp4 && columns % kNvfp4Group != 0) {
      refuse(tensor, "NVFP4 takes columns in groups of 16", "a multiple of 16 columns");
    }
    const uint64_t first_byte = dtype_bytes(*tensor.dtype, static_cast<size_t>(first_row * columns));
    plan_.jobs.push_back({.source = index,
                          .first_byte = first_byte,
                          .num_rows = rows,
                          .num_columns = columns,
                          .outputs = outputs_of(layer, rows, columns)});
    ++num_matrices_;
  }

  [[nodiscard]] std::vector<SafetensorsTensor> outputs_of(const std::string& layer, int64_t n, int64_t k) const {
    const auto named = [&](const char* suffix, DType dtype, const Shape& shape) {
      return SafetensorsTensor{.name = layer + suffix, .dtype = dtype, .shape = shape};
    };
    switch (options_.format) {
      case WeightFormat::kFp8Block:
        return {named(".weight", DType::kE4M3, {n, k}), named(".weight_scale_inv", options_.block_scale_dtype,
                                                              {ceil_div(n, kFp8BlockExtent), ceil_div(k, kFp8BlockExtent)})};
      case WeightFormat::kFp8Row: return {named(".weight", DType::kE4M3, {n, k}), named(".weight_scale", DType::kF32, {n, 1})};
      case WeightFormat::kNvfp4:
        return {named(".weight", DType::kU8, {n, k / 2}), named(".weight_scale", DType::kE4M3, {n, k / kNvfp4Group}),
                named(".weight_scale_2", DType::kF32, {})};
      case WeightFormat::kF32:
      case WeightFormat::kBF16: break;
    }
    throw Error(ErrorCode::kInvalidArgument, {.what = "not a format to quantise into",
                                              .expected = "fp8-block, fp8-row or nvfp4",
                                              .got = std::string(to_string(options_.format))});
  }

  /// The embedding is the head: a quantised copy of it becomes one.
  void plan_tied_head() {
    const auto tensors = source_.tensors();
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (!tensors[i].name.ends_with("embed_tokens.weight") || tensors[i].name.find("mtp.") != std::string::npos) continue;
      if (tensors[i].shape.rank() != 2) refuse(tensors[i], "it is not a matrix", "[N, K]");
      plan_matrix(i, 0, tensors[i].shape[0], tensors[i].shape[1], "lm_head");
      plan_.unties_lm_head = true;
      return;
    }
    throw Error(ErrorCode::kInvalidArgument,
                {.what = "there is neither an LM head nor an embedding to quantise", .where = source_.name()});
  }

  const WeightSource& source_;
  const QuantizeOptions& options_;
  QuantizePlan plan_;
  size_t num_matrices_ = 0;
  bool has_lm_head_ = false;
};

}  // namespace

QuantizePlan plan_quantization(const WeightSource& source, const QuantizeOptions& options) {
  return Planner(source, options).plan();
}

nlohmann::json quantization_config(const QuantizePlan& plan, const QuantizeOptions& options) {
  switch (options.format) {
    case WeightFormat::kFp8Block:
      return {{"quant_method", "fp8"},
              {"activation_scheme", "dynamic"},
              {"fmt", "e4m3"},
              {"weight_block_size", {kFp8BlockExtent, kFp8BlockExtent}},
              {"modules_to_not_convert", plan.left_out}};
    case WeightFormat::kNvfp4:
      return {{"quant_method", "modelopt"},
              {"quant_algo", "NVFP4"},
              {"group_size", kNvfp4Group},
              {"kv_cache_scheme", nullptr},
              {"ignore", plan.left_out}};
    default: break;
  }
  const nlohmann::json weights{
      {"num_bits", 8}, {"type", "float"}, {"strategy", "channel"}, {"symmetric", true}, {"dynamic", false}};
  const nlohmann::json activations{
      {"num_bits", 8}, {"type", "float"}, {"strategy", "token"}, {"symmetric", true}, {"dynamic", true}};
  const nlohmann::json group{
      {"targets", nlohmann::json::array({"Linear"})}, {"weights", weights}, {"input_activations", activations}};
  return {{"quant_method", "compressed-tensors"},  {"format", "float-quantized"}, {"quantization_status", "compressed"},
          {"config_groups", {{"group_0", group}}}, {"kv_cache_scheme", nullptr},  {"ignore", plan.left_out}};
}

}  // namespace foretoken
