// The greedy generation loop. A round is one draft Program and one verify Program with one read-back; its text is that of the
// target alone.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "speculative/draft_proposer.h"
#include "speculative/target_runner.h"

namespace foretoken {

enum class FinishReason : uint8_t { kStop, kLength };

/// "stop", "length".
[[nodiscard]] std::string_view to_string(FinishReason reason);

/// Accept counts chosen by the caller, for benchmarks and tests: round r accepts pattern[r % size] drafts (at most its depth),
/// because the drafts are replaced by the known continuation and then by a wrong token. The text stays exact.
struct ForcedAccepts {
  std::vector<int64_t> pattern{};       // empty: off
  std::vector<int32_t> continuation{};  // the greedy ids after the prompt; rounds past its end draft freely
};

struct GenerationOptions {
  int64_t max_tokens = 128;
  int64_t num_speculative_tokens = 3;         // 0: plain decoding
  std::vector<int64_t> depth_pattern{};       // when set, round r drafts depth_pattern[r % size] tokens instead
  std::span<const int32_t> stop_token_ids{};  // an emitted one ends the text and is its last id
  std::function<void(int32_t)> on_token{};    // called for each emitted id, in order
  ForcedAccepts forced{};
};

struct GenerationTiming {
  double prefill_ms = 0.0;  // up to the first token
  double decode_ms = 0.0;   // after it: draft + verify + host
  double draft_ms = 0.0;    // device time of draft Programs
  double verify_ms = 0.0;   // device time of verify and plain steps
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
  FinishReason finish_reason = FinishReason::kLength;
  GenerationTiming timing;
  SpeculationStats speculation;
  SelfCheckResult self_check;
};

/// Generates for one sequence at a time on one stream. The parts must outlive it.
class Generator {
 public:
  /// `proposer` may be null: plain decoding only.
  Generator(GpuBackend& backend, Stream& stream, TargetRunner& runner, DraftProposer* proposer);

  /// From now on every committed row's target logits are compared, bit for bit, with those of a second sequence that only ever
  /// takes plain one-row steps. Both runners need keep_logits.
  void enable_self_check(TargetRunner& shadow);

  /// Most tokens of prompt and text together.
  [[nodiscard]] int64_t max_context() const;

  /// Throws InvalidArgument: empty prompt, prompt of max_context or more tokens, ids out of range, depth out of range,
  /// speculation without a proposer. All memory of the sequence is returned, also on a throw.
  [[nodiscard]] GenerationResult generate(std::span<const int32_t> prompt, const GenerationOptions& options);

 private:
  friend class GenerationRun;
  GpuBackend& backend_;
  Stream& stream_;
  TargetRunner& runner_;
  DraftProposer* proposer_;
  TargetRunner* shadow_ = nullptr;
  Buffer backlog_memory_;
  Tensor backlog_;  // hidden states of rounds without drafts, until the drafter takes them in
};

}  // namespace foretoken
