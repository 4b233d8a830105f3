// Which engine was measured: what every report of a benchmark starts with.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "apps/foretoken/draft_report.h"
#include "speculative/engine.h"

namespace foretoken::cli {

struct EngineReport {
  std::string model{};
  std::string backend{};
  std::string device{};
  uint32_t num_threads = 0;
  std::string prefill_precision{};
  std::string activations{};
  std::string kv_dtype{};
  std::string draft_kv_dtype{};
  std::optional<DraftReport> draft{};  // nothing without a draft head
};

/// Of a loaded engine.
[[nodiscard]] EngineReport engine_report(Engine& engine);

/// {"model", "backend", "device", "threads", ..., "draft_precision"}
[[nodiscard]] nlohmann::ordered_json engine_json(const EngineReport& report);

/// "MODEL on DEVICE (BACKEND), N threads, prefill ..." and a line about the draft head.
[[nodiscard]] std::string engine_text(const EngineReport& report);

}  // namespace foretoken::cli
