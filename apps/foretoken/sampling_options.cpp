#include "apps/foretoken/sampling_options.h"

#include <algorithm>
#include <charconv>
#include <limits>

namespace foretoken::cli {
namespace {

template <class Number>
std::optional<Number> parse(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// "ID:BIAS,...": "-inf" forbids a token.
std::map<int32_t, float> logit_bias(const Options& options) {
  std::map<int32_t, float> biases;
  if (!options.has("logit-bias")) return biases;
  for (const std::string& item : options.texts("logit-bias")) {
    const size_t colon = std::min(item.find(':'), item.size());
    const auto id = parse<int32_t>(std::string_view(item).substr(0, colon));
    const auto bias = parse<float>(std::string_view(item).substr(std::min(colon + 1, item.size())));
    if (!id || !bias || *id < 0) {
      options.fail("option --logit-bias: expected ID:BIAS,... such as 11:-2.5,13:-inf, got '" + item + "'");
    }
    if (!biases.emplace(*id, *bias).second) {
      options.fail("option --logit-bias: token " + std::to_string(*id) + " is there twice");
    }
  }
  return biases;
}

}  // namespace

SamplingParams sampling_params(const Options& options, const std::vector<int32_t>& stop_token_ids) {
  const auto real = [&options](std::string_view name, double min, double max) {
    return static_cast<float>(options.real(name, min, max));
  };
  SamplingParams params;
  params.temperature = real("temperature", 0.0, SamplingParams::kMaxTemperature);
  params.top_k = static_cast<int32_t>(options.integer("top-k", 0, std::numeric_limits<int32_t>::max()));
  params.top_p = real("top-p", 0.0, 1.0);
  params.min_p = real("min-p", 0.0, 1.0);
  params.repetition_penalty = real("repetition-penalty", 0.0, 100.0);
  params.presence_penalty = real("presence-penalty", -100.0, 100.0);
  params.frequency_penalty = real("frequency-penalty", -100.0, 100.0);
  params.logit_bias = logit_bias(options);
  params.min_tokens = options.integer("min-tokens", 0, std::numeric_limits<int32_t>::max());
  if (params.min_tokens > 0) params.stop_token_ids = stop_token_ids;
  params.seed = static_cast<uint64_t>(options.integer("seed", 0, std::numeric_limits<int64_t>::max()));
  constexpr DraftSampling kKinds[] = {DraftSampling::kBlock, DraftSampling::kRejection, DraftSampling::kGreedy};
  params.draft_sampling = kKinds[options.choice("draft-sampling", {"block", "rejection", "greedy"})];
  return params;
}

std::optional<SamplerOptions> sampler_options(const SamplingParams& params) {
  if (is_plain_greedy(params)) return std::nullopt;
  return SamplerOptions{};
}

}  // namespace foretoken::cli
