// What a run of `bench serve` gave, and the figures that are made of it.
#pragma once

#include <cstdint>
#include <vector>

#include "speculative/generation.h"

namespace foretoken::cli {

/// Tokens of one request that came out together: the first one, then those of each round.
struct TokenBurst {
  double time_s = 0.0;
  int64_t num_tokens = 0;
};

/// Times are in seconds from the start of the run.
struct ServedRequest {
  double arrival_s = 0.0;  // as scheduled, whenever the engine took it in
  std::vector<TokenBurst> bursts{};
  GenerationResult result{};
};

/// One sequence in a round.
struct ServedDrafts {
  int64_t num_drafted = 0;
  int64_t num_accepted = 0;
};

/// One step of the engine: part of a prompt, a round of those that decode, or both.
struct ServeStep {
  double begin_s = 0.0;
  double end_s = 0.0;
  double draft_ms = 0.0;   // device time of the draft Program
  double verify_ms = 0.0;  // device time of the verify Program or plain step
  bool did_prefill = false;
  std::vector<ServedDrafts> sequences{};  // of the round; none when there was none
};

struct ServeRun {
  std::vector<ServedRequest> requests;
  std::vector<ServeStep> steps;
};

/// Of one kind of latency.
struct Latencies {
  std::vector<double> sorted_ms;

  /// 0 without samples.
  [[nodiscard]] double percentile(double percent) const;
  [[nodiscard]] double mean() const;
};

/// Where the time from the first arrival to the last token went.
struct TimeSplit {
  double draft_ms = 0.0;
  double verify_ms = 0.0;
  double host_ms = 0.0;     // the rest of rounds by themselves
  double prefill_ms = 0.0;  // the rest of steps that read a prompt
  double idle_ms = 0.0;     // no request was there

  [[nodiscard]] double busy_ms() const { return draft_ms + verify_ms + host_ms + prefill_ms; }
};

/// A stretch of the run.
struct TimelinePoint {
  double time_s = 0.0;          // its middle
  double mean_depth = 0.0;      // drafts of a sequence in a round
  double mean_sequences = 0.0;  // in a round
};

struct ServeFigures {
  static constexpr int64_t kTimelinePoints = 60;

  double seconds = 0.0;  // from the first arrival to the last token
  int64_t output_tokens = 0;
  double output_tokens_per_second = 0.0;
  double requests_per_second = 0.0;
  Latencies time_to_first_token;  // from the scheduled arrival
  Latencies inter_token;          // the wait for a round, in equal shares of its tokens
  Latencies end_to_end;           // from the scheduled arrival to the last token
  int64_t rounds = 0;
  double mean_sequences = 0.0;  // in a round
  int64_t max_sequences = 0;
  double mean_tokens_per_round = 0.0;     // of a sequence, plain steps included
  std::vector<int64_t> tokens_per_round;  // [n - 1]: rounds of a sequence that gave n tokens
  int64_t drafted = 0;
  int64_t accepted = 0;                        // emitted drafts
  std::vector<double> acceptance_by_position;  // [j - 1]: of rounds of a sequence with j or more drafts, the share where j held
  TimeSplit time;
  std::vector<TimelinePoint> timeline;  // stretches without a round are left out
  int64_t cached_prompt_tokens = 0;
  int64_t preemptions = 0;
};

/// `run` has at least one request, all finished, with at least one token each.
[[nodiscard]] ServeFigures serve_figures(const ServeRun& run);

}  // namespace foretoken::cli
