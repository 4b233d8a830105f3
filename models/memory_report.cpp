#include "models/memory_report.h"

#include <algorithm>

namespace foretoken {
namespace {

/// Bytes of a planned tensor that one row of a step reads.
uint64_t row_bytes(const PlannedTensor& planned, const ModelConfig& config, bool tied) {
  if (planned.part == WeightPart::kExperts) {
    return planned.bytes() / static_cast<uint64_t>(config.num_experts) * static_cast<uint64_t>(config.num_experts_per_tok);
  }
  if (planned.part == WeightPart::kEmbedding && !tied) return planned.bytes() / static_cast<uint64_t>(config.vocab_size);
  return planned.bytes();
}

void add_share(std::vector<FormatShare>& shares, const PlannedTensor& planned) {
  auto share = std::ranges::find(shares, planned.format, &FormatShare::format);
  if (share == shares.end()) share = shares.insert(shares.end(), {.format = planned.format});
  share->bytes += planned.bytes();
}

uint64_t num_layers_of(const ModelConfig& config, LayerType type) {
  return static_cast<uint64_t>(std::ranges::count(config.layer_types, type));
}

}  // namespace

MemoryReport memory_report(const WeightSource& source, const ModelConfig& config) {
  const auto plan = plan_weights(source, config);
  MemoryReport report;
  report.mtp_absent_reason = plan->mtp_absent_reason;
  uint64_t lm_head_bytes = 0;
  uint64_t embedding_row_bytes = 0;
  for (const PlannedTensor& planned : plan->tensors) {
    const auto same = [&](const PartReport& part) {
      return part.draft == planned.draft && part.part == planned.part && part.format == planned.format;
    };
    auto part = std::ranges::find_if(report.parts, same);
    if (part == report.parts.end()) {
      report.parts.push_back({.draft = planned.draft, .part = planned.part, .format = planned.format});
      part = std::prev(report.parts.end());
    }
    const uint64_t step = row_bytes(planned, config, plan->tied_lm_head);
    part->num_parameters += planned.is_scale ? 0 : static_cast<uint64_t>(planned.shape.num_elements());
    part->bytes += planned.bytes();
    part->step_bytes += step;
    (planned.draft ? report.draft_bytes : report.target_bytes) += planned.bytes();
    (planned.draft ? report.draft_step_bytes : report.target_step_bytes) += step;
    const bool is_head = planned.part == WeightPart::kLmHead || (planned.part == WeightPart::kEmbedding && plan->tied_lm_head);
    if (planned.is_matrix && (is_head || planned.part != WeightPart::kEmbedding)) {
      add_share(planned.draft ? report.draft_shares : report.target_shares, planned);
    }
    if (is_head) lm_head_bytes += planned.bytes();
    if (planned.part == WeightPart::kEmbedding && !plan->tied_lm_head) embedding_row_bytes = step;
  }
  for (auto* shares : {&report.target_shares, &report.draft_shares}) {
    std::ranges::stable_sort(*shares, std::ranges::greater(), &FormatShare::bytes);
  }
  if (plan->mtp) report.draft_step_bytes += lm_head_bytes + embedding_row_bytes;
  return report;
}

uint64_t draft_kv_bytes_per_token(const ModelConfig& config, DType kv_dtype) {
  return 2 * dtype_bytes(kv_dtype, static_cast<size_t>(config.num_key_value_heads * config.head_dim));
}

uint64_t target_kv_bytes_per_token(const ModelConfig& config, DType kv_dtype) {
  return num_layers_of(config, LayerType::kFullAttention) * draft_kv_bytes_per_token(config, kv_dtype);
}

uint64_t recurrent_state_bytes(const ModelConfig& config) {
  const int64_t convolution = config.conv_channels() * (config.linear_conv_kernel_dim - 1);
  const int64_t state = config.linear_num_value_heads * config.linear_key_head_dim * config.linear_value_head_dim;
  return num_layers_of(config, LayerType::kLinearAttention) * static_cast<uint64_t>(convolution + state) * sizeof(float);
}

}  // namespace foretoken
