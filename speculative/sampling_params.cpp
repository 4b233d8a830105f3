#include "speculative/sampling_params.h"

#include <fmt/format.h>

#include <cmath>
#include <string>

#include "core/error.h"

namespace foretoken {
namespace {

template <class Value>
[[noreturn]] void refuse(const char* name, const std::string& expected, const Value& value) {
  throw Error(ErrorCode::kInvalidArgument,
              {.what = std::string("sampling parameter ") + name, .expected = expected, .got = fmt::format("{}", value)});
}

/// NaN is in no range.
void check_range(const char* name, float value, float low, float high) {
  if (!(value >= low && value <= high)) refuse(name, fmt::format("{} .. {}", low, high), value);
}

void check_ids(const char* name, int32_t id, int64_t vocab_size) {
  if (id < 0 || id >= vocab_size) refuse(name, fmt::format("token ids below {}", vocab_size), id);
}

}  // namespace

void validate(const SamplingParams& params, int64_t vocab_size) {
  constexpr float kLargestPenalty = 100.0F;
  if (params.temperature != 0.0F &&
      !(params.temperature >= SamplingParams::kMinTemperature && params.temperature <= SamplingParams::kMaxTemperature)) {
    refuse("temperature", fmt::format("0 or {} .. {}", SamplingParams::kMinTemperature, SamplingParams::kMaxTemperature),
           params.temperature);
  }
  if (params.top_k < 0) refuse("top_k", "0 (off) or more", params.top_k);
  if (!(params.top_p > 0.0F && params.top_p <= 1.0F)) refuse("top_p", "more than 0, at most 1", params.top_p);
  check_range("min_p", params.min_p, 0.0F, 1.0F);
  if (!(params.repetition_penalty > 0.0F && params.repetition_penalty <= kLargestPenalty)) {
    refuse("repetition_penalty", fmt::format("more than 0, at most {}", kLargestPenalty), params.repetition_penalty);
  }
  check_range("presence_penalty", params.presence_penalty, -kLargestPenalty, kLargestPenalty);
  check_range("frequency_penalty", params.frequency_penalty, -kLargestPenalty, kLargestPenalty);
  for (const auto& [id, bias] : params.logit_bias) {
    check_ids("logit_bias", id, vocab_size);
    if (std::isnan(bias) || bias == INFINITY) refuse("logit_bias", "numbers, or -infinity", bias);
  }
  if (params.min_tokens < 0) refuse("min_tokens", "0 or more", params.min_tokens);
  for (const int32_t id : params.stop_token_ids) check_ids("stop_token_ids", id, vocab_size);
}

bool has_penalties(const SamplingParams& params) {
  return params.repetition_penalty != 1.0F || params.presence_penalty != 0.0F || params.frequency_penalty != 0.0F;
}

bool is_plain_greedy(const SamplingParams& params) {
  const bool keeps_stops = params.min_tokens > 0 && !params.stop_token_ids.empty();
  return params.temperature == 0.0F && !has_penalties(params) && params.logit_bias.empty() && !keeps_stops && !params.token_mask;
}

}  // namespace foretoken
