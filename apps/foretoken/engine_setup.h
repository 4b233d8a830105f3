// The options that commands with an engine share, turned into one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "apps/foretoken/options.h"
#include "core/error.h"
#include "speculative/engine.h"

namespace foretoken::cli {

/// Model, device, precision and what the drafter is fed. Throws UsageError.
[[nodiscard]] EngineOptions engine_options(const Options& options);

/// The same with the formats of the head's weights and where chains end: for commands that decode. Throws UsageError.
[[nodiscard]] EngineOptions decoding_options(const Options& options);

/// Memory of many sequences: --max-sequences (at most `num_prompts`), the KV cache and the prefix cache. Throws UsageError.
void set_memory(const Options& options, size_t num_prompts, EngineOptions& engine);

/// --kv-dtype or --draft-kv-dtype; nothing for auto. Throws UsageError.
[[nodiscard]] std::optional<DType> kv_dtype_option(const Options& options, std::string_view name);

/// Model, device, and all that the draft head is made by; the target's options stay at their defaults. Throws UsageError.
[[nodiscard]] EngineOptions drafter_options(const Options& options);

/// --activations; nothing for auto. Throws UsageError.
[[nodiscard]] std::optional<DType> activations_option(const Options& options);

/// "f32", "bf16", "fp8", as options have them.
[[nodiscard]] std::string_view dtype_name(DType dtype);

/// --draft-precision, --draft-fc, --draft-experts and --draft-lm-head, one value each. Throws UsageError.
[[nodiscard]] DraftPrecision draft_precision_options(const Options& options);

/// --draft-confidence-stop; nothing without it. Throws UsageError.
[[nodiscard]] std::optional<double> confidence_stop_option(const Options& options);

/// What `parse` makes of each item of a comma-separated option. Throws UsageError that names the option where `parse` throws
/// InvalidArgument.
template <class Parse>
[[nodiscard]] auto parse_list(const Options& options, std::string_view name, const Parse& parse) {
  std::vector<decltype(parse(std::string_view()))> values;
  for (const std::string& text : options.texts(name)) {
    try {
      values.push_back(parse(text));
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kInvalidArgument) throw;
      options.fail("option --" + std::string(name) + ": " + error.what());
    }
  }
  return values;
}

/// The same of an option with one value.
template <class Parse>
[[nodiscard]] auto parse_option(const Options& options, std::string_view name, const Parse& parse) {
  const auto values = parse_list(options, name, parse);
  if (values.size() != 1) options.fail("option --" + std::string(name) + ": expected one value, got a list");
  return values.front();
}

/// Most drafts of a round that "auto" may choose.
inline constexpr int64_t kMostAutoDrafts = 7;
/// --speculative-tokens: a number from 0 to 15, "auto" or a ladder (parse_depth_policy). Throws UsageError.
[[nodiscard]] DepthPolicySpec depth_option(const Options& options);

/// Loads with a progress line. Unless `quiet`, the engine's notes go to stderr: those that it has before, and after it those that
/// loading added.
void load_engine(Engine& engine, int64_t prompt_tokens, int64_t max_tokens, bool quiet);

/// "f32", "bf16".
[[nodiscard]] std::string_view precision_name(LinearPrecision precision);

}  // namespace foretoken::cli
