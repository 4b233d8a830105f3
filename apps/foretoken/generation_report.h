// What `generate` says about a run: JSON for programs, figures for people.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/foretoken/draft_report.h"
#include "speculative/generation.h"

namespace foretoken::cli {

/// The plain run beside a speculative one.
struct PlainComparison {
  double plain_tokens_per_second = 0.0;
  double speedup = 0.0;
  bool identical = false;
};

/// One prompt and its text.
struct PromptReport {
  int64_t prompt_tokens = 0;
  std::optional<std::string> text{};  // nothing for models without a tokenizer
  GenerationResult result{};
};

struct GenerationReport {
  std::string model{};
  std::string backend{};
  std::string activations{};
  std::string kv_dtype{};
  std::string draft_kv_dtype{};
  double load_ms = 0.0;
  double texts_ms = 0.0;               // from the first prompt's beginning to the last text's end
  int64_t speculative_tokens = 0;      // 0: plain
  std::optional<DraftReport> draft{};  // nothing without a draft head
  bool self_checked = false;
  std::vector<PromptReport> prompts{};       // at least one
  std::optional<PlainComparison> compare{};  // of the only prompt

  /// Whether something differs that must be identical.
  [[nodiscard]] bool is_different() const;
};

/// The middle one of at least one value, or the mean of the two in the middle.
[[nodiscard]] double median(std::vector<double> values);

/// Tokens per second after the first one; 0 when there is no other.
[[nodiscard]] double decode_tokens_per_second(const GenerationResult& result);

/// The members of the only prompt, or "results" with those of each.
[[nodiscard]] std::string to_json(const GenerationReport& report);
/// Lines for stderr.
[[nodiscard]] std::string to_figures(const GenerationReport& report);

}  // namespace foretoken::cli
