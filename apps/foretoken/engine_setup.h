// The options that generate and bench decode share, turned into an engine.
#pragma once

#include "apps/foretoken/options.h"
#include "speculative/engine.h"

namespace foretoken::cli {

/// Model, device, precision and draft options. Throws UsageError.
[[nodiscard]] EngineOptions engine_options(const Options& options);

/// --kv-dtype or --draft-kv-dtype; nothing for auto. Throws UsageError.
[[nodiscard]] std::optional<DType> kv_dtype_option(const Options& options, std::string_view name);

/// "f32", "bf16", "fp8".
[[nodiscard]] std::string_view kv_dtype_name(DType dtype);

/// Loads with a progress line.
void load_engine(Engine& engine, int64_t prompt_tokens, int64_t max_tokens);

/// The engine's notes on stderr.
void print_notes(const Engine& engine);

/// "f32", "bf16".
[[nodiscard]] std::string_view precision_name(LinearPrecision precision);

}  // namespace foretoken::cli
