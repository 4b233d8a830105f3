// From the structures of a caller to what a drafter is made of: checked, nothing loaded.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "foretoken/drafter.h"
#include "models/lent_weights.h"
#include "models/model_config.h"
#include "speculative/c_api/device.h"
#include "speculative/c_api/target.h"
#include "speculative/draft_precision.h"
#include "speculative/engine.h"
#include "speculative/mtp_proposer.h"

namespace foretoken::c_api {

struct DrafterSetup {
  std::shared_ptr<DeviceObject> device;
  std::vector<std::shared_ptr<BufferObject>> lent;  // kept while the drafter lives
  std::shared_ptr<TargetObject> target;             // likewise
  ModelFiles files;                                 // no source: everything is lent, or the target's files serve
  ModelConfig config;
  std::unique_ptr<DrafterSource> source;
  DraftPrecision precision;
  std::vector<int32_t> vocab;  // what drafts can be; empty: every token
  MtpProposerOptions options;
  LinearPrecision prefill_precision = LinearPrecision::kExact;
};

/// Throws InvalidArgument, InvalidHandle, FormatError (config, files) and Unsupported.
[[nodiscard]] DrafterSetup drafter_setup(std::shared_ptr<DeviceObject> device, const foretoken_drafter_source& source,
                                         const foretoken_drafter_options& options);

}  // namespace foretoken::c_api
