#include "apps/foretoken/serve_load.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace foretoken::cli {
namespace {

// One stream of numbers for each use, so that one option does not change what another draws.
constexpr uint64_t kArrivals = 0x9e3779b97f4a7c15;
constexpr uint64_t kPrompts = 0xbf58476d1ce4e5b9;
constexpr uint64_t kTexts = 0x94d049bb133111eb;

int64_t length(const std::vector<int32_t>& prompt) { return static_cast<int64_t>(prompt.size()); }

}  // namespace

int64_t SeededNumbers::integer(const IntegerRange& range) {
  const auto width = static_cast<uint64_t>(range.max - range.min) + 1;
  return range.min + static_cast<int64_t>(generator_() % width);
}

std::vector<double> arrival_schedule(size_t count, double rate, uint64_t seed) {
  SeededNumbers numbers(seed ^ kArrivals);
  std::vector<double> arrivals(count);
  double units = 0.0;  // of 1 / rate
  for (double& arrival : arrivals) {
    units -= std::log1p(-numbers.uniform());
    arrival = units / rate;
  }
  return arrivals;
}

int64_t ServeLoad::prompt_tokens() const {
  int64_t tokens = 0;
  for (const LoadRequest& request : requests) tokens += length(prompts[request.prompt_idx]);
  return tokens;
}

int64_t ServeLoad::max_prompt_tokens() const { return length(*std::ranges::max_element(prompts, {}, length)); }

int64_t ServeLoad::max_tokens() const { return std::ranges::max_element(requests, {}, &LoadRequest::max_tokens)->max_tokens; }

std::vector<std::vector<int32_t>> random_prompts(size_t count, const IntegerRange& tokens, int64_t vocab_size, uint64_t seed) {
  SeededNumbers numbers(seed ^ kPrompts);
  std::vector<std::vector<int32_t>> prompts(count);
  for (std::vector<int32_t>& prompt : prompts) {
    prompt.resize(static_cast<size_t>(numbers.integer(tokens)));
    for (int32_t& id : prompt) id = static_cast<int32_t>(numbers.integer({.min = 0, .max = vocab_size - 1}));
  }
  return prompts;
}

ServeLoad make_load(std::vector<std::vector<int32_t>> prompts, size_t count, const IntegerRange& max_tokens, uint64_t seed) {
  SeededNumbers numbers(seed ^ kTexts);
  ServeLoad load{.prompts = std::move(prompts), .requests = std::vector<LoadRequest>(count)};
  for (size_t i = 0; i < count; ++i) {
    load.requests[i] = {.prompt_idx = i % load.prompts.size(), .max_tokens = numbers.integer(max_tokens)};
  }
  return load;
}

}  // namespace foretoken::cli
