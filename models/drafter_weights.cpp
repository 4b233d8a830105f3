#include "models/drafter_weights.h"

#include <set>
#include <utility>

#include "core/error.h"
#include "models/weight_uploader.h"

namespace foretoken {
namespace {

/// Says what became of lent tensors that are not used where they lie.
class LentNotes {
 public:
  LentNotes(const DrafterSource& source, LoadedDrafter& drafter)
      : source_(source), drafter_(drafter), is_read_(source.tensors().size(), false) {}

  void add_in_place(const PlannedTensor& planned) {
    is_read_[planned.pieces.front().tensor] = true;
    drafter_.lent_bytes += planned.bytes();
  }

  /// `planned` has memory of its own.
  void add(const PlannedTensor& planned) {
    std::set<size_t> lent;
    for (const WeightPiece& piece : planned.pieces) {
      is_read_[piece.tensor] = true;
      if (source_.resident(piece.tensor) == nullptr) {
        drafter_.read_bytes += piece.bytes;
      } else {
        lent.insert(piece.tensor);
      }
    }
    if (lent.empty()) return;
    drafter_.copied_bytes += planned.bytes();
    drafter_.notes.push_back("a copy of lent " + what_of(planned, lent) + " is used, " + std::to_string(planned.bytes()) +
                             " bytes");
  }

  void add_unread() {
    for (size_t i = 0; i < is_read_.size(); ++i) {
      if (!is_read_[i] && source_.resident(i) != nullptr)
        drafter_.notes.push_back("lent " + source_.tensors()[i].name + " is not used");
    }
  }

 private:
  [[nodiscard]] std::string what_of(const PlannedTensor& planned, const std::set<size_t>& lent) const {
    const std::string& name = source_.tensors()[*lent.begin()].name;
    if (planned.conversion == Conversion::kBf16ToF32) return name + " in F32";
    if (planned.conversion == Conversion::kReciprocal) return name + ", its reciprocal,";
    if (lent.size() == 1) return name + ", its values repeated,";
    return name + " and " + std::to_string(lent.size() - 1) + " others, put together,";
  }

  const DrafterSource& source_;
  LoadedDrafter& drafter_;
  std::vector<bool> is_read_;
};

}  // namespace

std::unique_ptr<WeightPlan> plan_drafter(const DrafterSource& source, const ModelConfig& config) {
  auto plan = plan_drafter(source, config, source.shared());
  if (plan->mtp) return plan;
  throw Error(ErrorCode::kUnsupported, {.what = "there is no drafter: " + plan->mtp_absent_reason, .where = source.name()});
}

LoadedDrafter load_drafter(GpuBackend& backend, const DrafterSource& source, const ModelConfig& config,
                           const LoadProgressFn& progress) {
  const std::unique_ptr<WeightPlan> plan = plan_drafter(source, config);
  check_formats(backend, source, plan->tensors);

  LoadedDrafter drafter;
  LentNotes notes(source, drafter);
  std::vector<const PlannedTensor*> in_place;
  std::vector<const PlannedTensor*> made;
  for (const PlannedTensor& planned : plan->tensors) {
    *planned.slot = resident_view(source, planned);
    if (*planned.slot) {
      in_place.push_back(&planned);
      notes.add_in_place(planned);
      continue;
    }
    drafter.buffers.push_back(backend.allocate(static_cast<size_t>(planned.bytes()), MemoryKind::kDevice));
    *planned.slot = drafter.buffers.back().tensor(planned.dtype, planned.shape);
    made.push_back(&planned);
    notes.add(planned);
  }
  notes.add_unread();
  // After the buffers: on a throw its stream ends before they do.
  WeightUploader uploader(backend, source, progress);
  for (const PlannedTensor* planned : in_place) uploader.check(*planned);
  for (const PlannedTensor* planned : made) uploader.fill(*planned);
  uploader.run();

  if (plan->tied_lm_head) plan->target.lm_head = tied_lm_head(plan->target.embed_tokens);
  drafter.config = config;
  drafter.weights = {.mtp = *plan->mtp, .shared = {.embed_tokens = plan->target.embed_tokens, .lm_head = plan->target.lm_head}};
  return drafter;
}

}  // namespace foretoken
