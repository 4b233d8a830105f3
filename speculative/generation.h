// What a caller asks of the generation engine for one text, and what comes back.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "speculative/sampling_params.h"

namespace foretoken {

enum class FinishReason : uint8_t { kStop, kLength, kCancelled };

/// "stop", "length", "cancelled".
[[nodiscard]] std::string_view to_string(FinishReason reason);

/// Accept counts chosen by the caller, for benchmarks and tests: round r accepts pattern[r % size] drafts (at most its depth),
/// because the drafts are replaced by the known continuation and then by a wrong token. The text stays exact.
struct ForcedAccepts {
  std::vector<int64_t> pattern{};       // empty: off
  std::vector<int32_t> continuation{};  // the greedy ids after the prompt; rounds past its end draft freely
};

struct GenerationOptions {
  int64_t max_tokens = 128;
  int64_t num_speculative_tokens = 3;               // most drafts of a round; 0: plain decoding
  std::vector<int64_t> depth_pattern{};             // when set, round r drafts depth_pattern[r % size] tokens instead
  std::vector<int32_t> stop_token_ids{};            // an emitted one ends the text and is its last id
  std::vector<std::string> stop_strings{};          // the text ends before the first of them; needs a tokenizer
  SamplingParams sampling{};                        // greedy by default
  std::function<void(int32_t)> on_token{};          // called for each emitted id, in order
  std::function<void(std::string_view)> on_text{};  // called with the text as it is settled, never half a character or half a
                                                    // stop string; needs a tokenizer
  ForcedAccepts forced{};
};

struct GenerationTiming {
  double prefill_ms = 0.0;  // from admission to the first token
  double decode_ms = 0.0;   // after it: draft + verify + host
  double draft_ms = 0.0;    // device time of draft Programs of its rounds
  double verify_ms = 0.0;   // device time of verify and plain steps of its rounds
  double host_ms = 0.0;     // the rest
};

/// Counting as in docs/design.md: emitted drafts count as accepted, an end token included; the bonus token does not.
struct SpeculationStats {
  int64_t drafted = 0;
  std::vector<int64_t> accepted_per_round;  // of rounds that drafted
  [[nodiscard]] int64_t accepted() const;
  [[nodiscard]] int64_t rounds() const { return static_cast<int64_t>(accepted_per_round.size()); }
  /// Share of rounds that accepted at least j drafts, for j = 1 .. depth.
  [[nodiscard]] std::vector<double> acceptance_by_position(int64_t depth) const;
  /// 1 + accepted / rounds; 0 without rounds.
  [[nodiscard]] double mean_tokens_per_round() const;
};

struct SelfCheckResult {
  int64_t rows_checked = 0;
  int64_t rows_different = 0;     // target logits that differ from those of a sequence that never speculated
  int64_t first_difference = -1;  // index of the first such token in the output
};

struct GenerationResult {
  std::vector<int32_t> output_token_ids;
  std::string text;  // where there is a tokenizer: without special tokens, cut at a stop string
  FinishReason finish_reason = FinishReason::kLength;
  GenerationTiming timing;
  SpeculationStats speculation;
  SelfCheckResult self_check;
  int64_t num_cached_tokens = 0;  // of the prompt, taken from the prefix cache
  int64_t num_preemptions = 0;
};

}  // namespace foretoken
