// Weights in device memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backends/backend.h"
#include "layers/weights.h"
#include "models/model_config.h"
#include "models/weight_source.h"

namespace foretoken {

struct LoadOptions {
  bool load_mtp = true;              // false: the draft head is checked but not loaded
  bool draft_tensors_apart = false;  // each tensor of the draft head in a buffer of its own, see LoadedModel::draft_buffers
  LoadProgressFn progress{};
};

/// Owns the memory that its views point into. Movable; must not outlive its backend.
struct LoadedModel {
  ModelConfig config;
  TargetWeights target;
  std::optional<MtpWeights> mtp;
  std::string mtp_absent_reason;  // empty when `mtp` is there
  uint64_t weight_bytes = 0;
  std::vector<Buffer> buffers;
  std::vector<Buffer> draft_buffers;  // one for each tensor of the draft head that was loaded apart

  /// Views of the embedding and the LM head.
  [[nodiscard]] SharedWeights shared() const { return {.embed_tokens = target.embed_tokens, .lm_head = target.lm_head}; }
  /// Views of the draft head and of what it shares with the target. Throws InvalidArgument when there is none.
  [[nodiscard]] DrafterWeights drafter() const;
};

/// Loads all weights of a model onto a device; a source that has recipes instead of bytes is generated there. Linear weights keep
/// their format; norms, A_log, dt_bias and the convolution become F32. Throws what plan_weights throws; FormatError for
/// E4M3 codes that are NaN and for scales that no weight can have; Unsupported for a weight format that the device cannot store,
/// with the tensor and the device's reason; OutOfMemory; DeviceError. Whatever it throws, it leaves nothing allocated.
[[nodiscard]] LoadedModel load_model(GpuBackend& backend, const WeightSource& source, const ModelConfig& config,
                                     const LoadOptions& options = {});

}  // namespace foretoken
