#include "apps/foretoken/draft_report.h"

#include <nlohmann/json.hpp>

namespace foretoken::cli {

DraftReport draft_report(const DraftPrecision& requested, const DraftHead& head) {
  const DecoderLayerWeights& layer = head.weights.layer;
  const WeightFormat linears = requested.linears.value_or(layer.self_attn->q_proj.format);
  return {.requested = std::string(draft_precision_name(requested.linears)),
          .requested_lm_head = std::string(draft_precision_name(requested.lm_head)),
          .effective = std::string(to_string(effective_precision(linears, layer.mlp.has_value()))),
          .stored = stored_formats(head)};
}

nlohmann::ordered_json draft_json(const DraftReport& report) {
  nlohmann::ordered_json stored = nlohmann::ordered_json::object();
  for (const auto& [part, formats] : report.stored) stored[std::string(part)] = formats;
  return {{"requested", report.requested},
          {"requested_lm_head", report.requested_lm_head},
          {"effective", report.effective},
          {"stored", stored}};
}

std::string stored_text(const DraftReport& report) {
  std::string text;
  for (const auto& [part, formats] : report.stored) {
    text.append(text.empty() ? "" : ", ").append(part).append(" ").append(formats);
  }
  return text;
}

}  // namespace foretoken::cli
