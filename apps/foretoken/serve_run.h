// Open-loop serving: requests arrive by the clock, whatever the engine does.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "apps/foretoken/serve_figures.h"
#include "apps/foretoken/serve_load.h"
#include "speculative/depth_policy.h"
#include "speculative/generation_engine.h"

namespace foretoken::cli {

/// Notes what became of each round, and leaves the decisions to another policy.
class NotedDepth final : public DepthPolicy {
 public:
  /// `policy` decides. The sequences of each round are added to `noted`. Both must outlive it.
  NotedDepth(DepthPolicy& policy, std::vector<ServedDrafts>& noted) : policy_(policy), noted_(noted) {}

  [[nodiscard]] int64_t max_drafts() const override { return policy_.max_drafts(); }
  [[nodiscard]] std::vector<int64_t> depths(std::span<const ActiveSequence> sequences) override {
    return policy_.depths(sequences);
  }
  void observe(const RoundReport& report) override;
  void learn_cost(int64_t num_sequences, int64_t num_drafts, const RoundTime& time) override {
    policy_.learn_cost(num_sequences, num_drafts, time);
  }

 private:
  DepthPolicy& policy_;
  std::vector<ServedDrafts>& noted_;
};

/// Serves all of `load`: request i arrives at `arrivals_s[i]` (rising) seconds after the call, with the options that
/// `options_of(i)` gives it, and is handed to the engine between two steps. `noted` is what the engine's policy notes. Sleeps
/// while no request is there. Throws what the engine throws.
[[nodiscard]] ServeRun serve(GenerationEngine& engine, const ServeLoad& load, std::span<const double> arrivals_s,
                             const std::function<GenerationOptions(size_t request_idx)>& options_of,
                             std::vector<ServedDrafts>& noted);

}  // namespace foretoken::cli
