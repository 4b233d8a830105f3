// The weights of a drafter alone, in device memory: its head, and the embedding and LM head that it shares with a target.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backends/backend.h"
#include "layers/weights.h"
#include "models/lent_weights.h"
#include "models/model_config.h"
#include "models/weight_map.h"

namespace foretoken {

/// Views of lent tensors, of a target's and of `buffers`. Movable; must outlive neither those nor its backend.
struct LoadedDrafter {
  ModelConfig config;
  DrafterWeights weights;
  std::vector<Buffer> buffers;     // one for each tensor that was read or copied
  uint64_t read_bytes = 0;         // in the checkpoint, of what was read
  uint64_t lent_bytes = 0;         // of lent tensors that are used where they lie
  uint64_t copied_bytes = 0;       // in memory of this, of what was made from lent tensors
  std::vector<std::string> notes;  // which lent tensors are not used where they lie, and why, one sentence each
};

/// What `source` holds for a drafter, by the rules of plan_drafter. Throws what that throws; Unsupported when there is no head
/// that can be used, with the reason.
[[nodiscard]] std::unique_ptr<WeightPlan> plan_drafter(const DrafterSource& source, const ModelConfig& config);

/// Loads them; the target's own tensors are neither needed nor read. A lent tensor of the dtype and shape that kernels want is
/// used where it lies, the embedding and the LM head always; BF16 norms and reciprocal scales become F32 copies, tensors of
/// single experts are copied into stacks. Values of lent tensors are looked at like those of a file: FP8 codes and scales are
/// read back once. Throws what plan_drafter and load_model throw. Whatever it throws, it leaves nothing allocated.
[[nodiscard]] LoadedDrafter load_drafter(GpuBackend& backend, const DrafterSource& source, const ModelConfig& config,
                                         const LoadProgressFn& progress = {});

}  // namespace foretoken
