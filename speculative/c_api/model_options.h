// Options that a target and a drafter share: defaults, and what a device decides.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "backends/backend.h"
#include "models/model_config.h"
#include "speculative/batch_bucket.h"
#include "speculative/c_api/boundary.h"
#include "speculative/draft_precision.h"

namespace foretoken::c_api {

/// Tokens of a sequence when nothing is said.
inline constexpr int64_t kDefaultSeqLen = 4096;

inline int64_t seq_len_of(int64_t asked, const ModelConfig& config) {
  const int64_t context = config.max_position_embeddings;
  if (asked == 0) return std::min(kDefaultSeqLen, context);
  return require_range("options.max_seq_len", asked, 1, context);
}

inline int32_t sequences_of(int32_t asked) {
  return asked == 0 ? 1 : static_cast<int32_t>(require_range("options.max_sequences", asked, 1, kMaxBatch));
}

inline int64_t prefill_chunk_of(int32_t asked) {
  return asked == 0 ? 512 : require_range("options.prefill_chunk", asked, 1, 8192);
}

inline DType cache_dtype_of(foretoken_dtype asked) {
  const DType dtype = optional_dtype(asked, "options.kv_dtype").value_or(DType::kBF16);
  if (dtype != DType::kF32 && dtype != DType::kBF16 && dtype != DType::kE4M3) {
    fail_argument("options.kv_dtype", "F32, BF16 or E4M3", to_string(dtype));
  }
  return dtype;
}

/// Nothing for the default.
inline std::optional<LinearPrecision> prefill_precision_of(foretoken_dtype asked) {
  const std::optional<DType> dtype = optional_dtype(asked, "options.prefill_dtype");
  if (!dtype) return std::nullopt;
  if (*dtype != DType::kF32 && *dtype != DType::kBF16) fail_argument("options.prefill_dtype", "F32 or BF16", to_string(*dtype));
  return *dtype == DType::kBF16 ? LinearPrecision::kBF16 : LinearPrecision::kExact;
}

inline LinearPrecision prefill_precision_of(foretoken_dtype asked, const Capabilities& device) {
  return prefill_precision_of(asked).value_or(device.bf16_prefill ? LinearPrecision::kBF16 : LinearPrecision::kExact);
}

/// Formats by their names, as the tool's options take them; null: as stored. `lm_head` is never null.
inline DraftPrecision draft_precision_of(const char* linears, const char* fc, const char* experts, const char* lm_head) {
  const auto named = [](const char* name) { return name == nullptr ? std::nullopt : parse_draft_precision(name); };
  return {.linears = named(linears), .fc = named(fc), .experts = named(experts), .lm_head = parse_draft_lm_head(lm_head)};
}

inline foretoken_norm norm_of(foretoken_norm asked, std::string_view name) {
  if (asked != FORETOKEN_POST_NORM && asked != FORETOKEN_PRE_NORM) {
    fail_argument(name, "FORETOKEN_POST_NORM or FORETOKEN_PRE_NORM", std::to_string(static_cast<int>(asked)));
  }
  return asked;
}

}  // namespace foretoken::c_api
