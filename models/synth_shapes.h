// The released shapes and how their tensors are named. For the sources of this folder, not for callers.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "models/synth.h"

namespace foretoken {

/// One tensor and how it is filled.
struct SynthTensor {
  SourceTensor tensor;
  RandomRecipe recipe;
};

/// Throws InvalidArgument for an unknown model or a number of layers out of range.
[[nodiscard]] nlohmann::json synth_config_json(const SynthSpec& spec);

/// The tensors of such a checkpoint in file order.
[[nodiscard]] std::vector<SynthTensor> synth_tensors(const ModelConfig& config, const std::string& origin, uint64_t seed);

}  // namespace foretoken
