// A target and a drafter of 16 tokens whose logits depend on the two tokens before, and generation with them through the
// operators: many sequences at once, all with the same parameters and prompt, each with random numbers of its own.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tests/unit/sampling/exact_distribution.h"
#include "tests/unit/sampling/test_device.h"

namespace foretoken::test {

class ToyModel {
 public:
  static constexpr int64_t kVocab = 16;

  /// `noise`: how far the drafter is from the target.
  ToyModel(uint64_t seed, double noise);

  /// Logits after `output` (the prompt counts for nothing here).
  [[nodiscard]] std::span<const float> target(std::span<const int32_t> output) const { return row(target_, output); }
  [[nodiscard]] std::span<const float> drafter(std::span<const int32_t> output) const { return row(drafter_, output); }

 private:
  static std::span<const float> row(const std::vector<float>& table, std::span<const int32_t> output);

  std::vector<float> target_;
  std::vector<float> drafter_;
};

/// Sequences of one test.
struct ToyRun {
  SamplingParams params;
  std::vector<int32_t> prompt{3, 5, 5};
  int64_t num_sequences = 200000;
  int64_t num_drafts = 0;       // 0: plain sampling
  int64_t num_candidates = 16;  // of a draft distribution
  int64_t num_tokens = 2;       // of each sequence, at least
};

struct ToyResult {
  std::vector<std::vector<int32_t>> outputs;  // as long as they came to be
  std::vector<int64_t> first_accepted;        // drafts accepted in the first round of each sequence
  [[nodiscard]] double mean_first_accepted() const;
};

[[nodiscard]] ToyResult generate(TestDevice& device, const ToyModel& model, const ToyRun& run);

}  // namespace foretoken::test
