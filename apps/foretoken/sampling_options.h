// What the command line says about sampling.
#pragma once

#include <optional>

#include "apps/foretoken/options.h"
#include "speculative/sampler.h"

namespace foretoken::cli {

/// The parameters of a request; greedy when nothing was asked for. `stop_token_ids` are those that --min-tokens forbids. Throws
/// UsageError that names the option; ranges are checked where the model is known.
[[nodiscard]] SamplingParams sampling_params(const Options& options, const std::vector<int32_t>& stop_token_ids);

/// Memory for such requests; nothing when they are plainly greedy.
[[nodiscard]] std::optional<SamplerOptions> sampler_options(const SamplingParams& params);

}  // namespace foretoken::cli
