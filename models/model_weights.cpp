#include "models/model_weights.h"

#include <memory>
#include <utility>

#include "core/error.h"
#include "models/weight_map.h"
#include "models/weight_uploader.h"

namespace foretoken {
namespace {

constexpr size_t kChunkBytes = size_t{1} << 30;  // small enough for devices with a limit per allocation
constexpr size_t kAlignment = 256;

/// Places every tensor in a chunk of memory and allocates the chunks; a tensor larger than a chunk gets one of its own.
class Placement {
 public:
  void place(PlannedTensor& planned) {
    const size_t bytes = (static_cast<size_t>(planned.bytes()) + kAlignment - 1) / kAlignment * kAlignment;
    if (chunks_.empty() || chunks_.back() + bytes > kChunkBytes) chunks_.push_back(0);
    places_.emplace_back(chunks_.size() - 1, chunks_.back());
    chunks_.back() += bytes;
    planned_.push_back(&planned);
  }

  [[nodiscard]] std::vector<Buffer> allocate(GpuBackend& backend) const {
    std::vector<Buffer> buffers;
    buffers.reserve(chunks_.size());
    for (const size_t bytes : chunks_) buffers.push_back(backend.allocate(bytes, MemoryKind::kDevice));
    for (size_t i = 0; i < planned_.size(); ++i) {
      const auto& [chunk, offset] = places_[i];
      *planned_[i]->slot = buffers[chunk].tensor(planned_[i]->dtype, planned_[i]->shape, offset);
    }
    return buffers;
  }

 private:
  std::vector<size_t> chunks_;                     // their bytes
  std::vector<std::pair<size_t, size_t>> places_;  // chunk, offset
  std::vector<PlannedTensor*> planned_;
};

}  // namespace

LoadedModel load_model(GpuBackend& backend, const WeightSource& source, const ModelConfig& config, const LoadOptions& options) {
  const std::unique_ptr<WeightPlan> plan = plan_weights(source, config);
  if (plan->mtp && !options.load_mtp) {
    std::erase_if(plan->tensors, [](const PlannedTensor& planned) { return planned.draft; });
    plan->mtp.reset();
    plan->mtp_absent_reason = "the draft head was not loaded: no drafts were asked for";
  }
  check_formats(backend, source, plan->tensors);

  LoadedModel model;
  Placement placement;
  for (PlannedTensor& planned : plan->tensors) {
    if (planned.draft && options.draft_tensors_apart) {
      model.draft_buffers.push_back(backend.allocate(static_cast<size_t>(planned.bytes()), MemoryKind::kDevice));
      *planned.slot = model.draft_buffers.back().tensor(planned.dtype, planned.shape);
    } else {
      placement.place(planned);
    }
    model.weight_bytes += planned.bytes();
  }
  model.buffers = placement.allocate(backend);
  // After the buffers: on a throw its stream ends before they do.
  WeightUploader uploader(backend, source, options.progress);
  for (const PlannedTensor& planned : plan->tensors) uploader.fill(planned);
  uploader.run();

  model.config = config;
  model.target = std::move(plan->target);
  model.mtp = plan->mtp;
  model.mtp_absent_reason = std::move(plan->mtp_absent_reason);
  if (plan->tied_lm_head) model.target.lm_head = tied_lm_head(model.target.embed_tokens);
  return model;
}

DrafterWeights LoadedModel::drafter() const {
  if (!mtp) throw Error(ErrorCode::kInvalidArgument, "there is no draft head: " + mtp_absent_reason);
  return {.mtp = *mtp, .shared = shared()};
}

}  // namespace foretoken
