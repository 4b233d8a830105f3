#include "apps/foretoken/engine_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "apps/foretoken/engine_setup.h"

namespace foretoken::cli {

EngineReport engine_report(Engine& engine) {
  const Capabilities& device = engine.backend().capabilities();
  EngineReport report{.model = engine.model_name(),
                      .backend = device.backend,
                      .device = device.device_name,
                      .num_threads = device.num_compute_units,
                      .prefill_precision = std::string(precision_name(engine.prefill_precision())),
                      .activations = std::string(dtype_name(engine.activation_dtype())),
                      .kv_dtype = std::string(dtype_name(engine.kv_dtype())),
                      .draft_kv_dtype = std::string(dtype_name(engine.draft_kv_dtype()))};
  if (engine.can_speculate()) report.draft = draft_report(engine.options().draft_precision, *engine.draft_head());
  return report;
}

nlohmann::ordered_json engine_json(const EngineReport& report) {
  return {{"model", report.model},
          {"backend", report.backend},
          {"device", report.device},
          {"threads", report.num_threads},
          {"prefill_precision", report.prefill_precision},
          {"activations", report.activations},
          {"kv_dtype", report.kv_dtype},
          {"draft_kv_dtype", report.draft_kv_dtype},
          {"draft_precision", report.draft ? draft_json(*report.draft) : nlohmann::ordered_json()}};
}

std::string engine_text(const EngineReport& report) {
  std::string text = fmt::format("{} on {} ({}), {} threads, prefill {}, activations {}, KV cache {}, of the drafter {}\n",
                                 report.model, report.device, report.backend, report.num_threads, report.prefill_precision,
                                 report.activations, report.kv_dtype, report.draft_kv_dtype);
  if (report.draft) text += fmt::format("draft head: {}\n", stored_text(*report.draft));
  return text;
}

}  // namespace foretoken::cli
