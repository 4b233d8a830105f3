// What `bench serve` asks of the engine: requests, their prompts, and when each arrives.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "apps/foretoken/options.h"

namespace foretoken::cli {

/// Numbers that a seed decides, the same on every platform.
class SeededNumbers {
 public:
  explicit SeededNumbers(uint64_t seed) : generator_(seed) {}

  /// In [0, 1).
  [[nodiscard]] double uniform() { return static_cast<double>(generator_() >> 11) * 0x1p-53; }
  [[nodiscard]] int64_t integer(const IntegerRange& range);

 private:
  std::mt19937_64 generator_;
};

/// When `count` requests arrive, in seconds from the start: a Poisson process of `rate` requests per second, infinity for all at
/// once. The same seed gives the same gaps at every rate, but for their scale.
[[nodiscard]] std::vector<double> arrival_schedule(size_t count, double rate, uint64_t seed);

struct LoadRequest {
  size_t prompt_idx = 0;
  int64_t max_tokens = 0;
};

struct ServeLoad {
  std::vector<std::vector<int32_t>> prompts;
  std::vector<LoadRequest> requests;  // in order of arrival

  /// Tokens of all prompts that are asked for.
  [[nodiscard]] int64_t prompt_tokens() const;
  /// Of the longest prompt.
  [[nodiscard]] int64_t max_prompt_tokens() const;
  /// Most tokens that a request generates.
  [[nodiscard]] int64_t max_tokens() const;
};

/// `count` prompts of random token ids.
[[nodiscard]] std::vector<std::vector<int32_t>> random_prompts(size_t count, const IntegerRange& tokens, int64_t vocab_size,
                                                               uint64_t seed);

/// `count` requests that take the prompts in turn. `prompts` holds at least one.
[[nodiscard]] ServeLoad make_load(std::vector<std::vector<int32_t>> prompts, size_t count, const IntegerRange& max_tokens,
                                  uint64_t seed);

}  // namespace foretoken::cli
