// What precision a draft head was asked for and what it is kept in, for the reports of commands that draft.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "speculative/draft_precision.h"

namespace foretoken::cli {

struct DraftReport {
  std::string requested;              // --draft-precision
  std::string requested_lm_head;      // --draft-lm-head
  std::string effective;              // see effective_precision
  std::vector<StoredFormats> stored;  // in device memory
};

[[nodiscard]] DraftReport draft_report(const DraftPrecision& requested, const DraftHead& head);

/// {"requested", "requested_lm_head", "effective", "stored": {"fc", ...}}
[[nodiscard]] nlohmann::ordered_json draft_json(const DraftReport& report);

/// "fc bf16, self_attn fp8-block, mlp fp8-block, lm_head bf16"
[[nodiscard]] std::string stored_text(const DraftReport& report);

}  // namespace foretoken::cli
