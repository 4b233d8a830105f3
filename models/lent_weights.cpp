#include "models/lent_weights.h"

#include <set>
#include <utility>

#include "core/error.h"
#include "models/weight_map.h"

namespace foretoken {
namespace {

constexpr const char* kLentOrigin = "lent by the caller";

/// The weight that a tensor is a part of, by its name: routed experts count as one.
std::string_view weight_of(std::string_view tensor_name) {
  constexpr std::string_view kExperts = ".experts.";
  const size_t experts = tensor_name.find(kExperts);
  return experts == std::string_view::npos ? tensor_name.substr(0, tensor_name.rfind('.'))
                                           : tensor_name.substr(0, experts + kExperts.size());
}

std::string describe(const Tensor& tensor) { return std::string(to_string(tensor.dtype())) + " " + tensor.shape().to_string(); }

[[noreturn]] void refuse(const LentTensor& lent, const std::string& problem, const std::string& expected,
                         const std::string& got) {
  throw Error(ErrorCode::kInvalidArgument,
              {.what = "tensor " + lent.name + " " + problem, .where = kLentOrigin, .expected = expected, .got = got});
}

void check_lent(const LentTensor& lent, bool has_shared) {
  if (!lent.tensor) refuse(lent, "has no memory", "a tensor in device memory", "nothing");
  const TensorOwner owner = tensor_owner(lent.name);
  if (owner == TensorOwner::kTarget) {
    refuse(lent, "belongs to no drafter", "names of mtp.*, embed_tokens and lm_head as in checkpoints", "'" + lent.name + "'");
  }
  if (owner == TensorOwner::kShared && has_shared) {
    refuse(lent, "is lent besides those of a loaded target", "the embedding and the LM head from one of them", "both");
  }
  if (!lent.tensor.is_contiguous()) {
    refuse(lent, "has rows that are further apart than they are long", "a contiguous tensor",
           describe(lent.tensor) + ", rows " + std::to_string(lent.tensor.row_stride()) + " elements apart");
  }
  if (lent.tensor.address() % kNativeAlignment == 0) return;
  refuse(lent, "is not aligned", "an address that " + std::to_string(kNativeAlignment) + " divides",
         "one that leaves " + std::to_string(lent.tensor.address() % kNativeAlignment));
}

}  // namespace

DrafterSource::DrafterSource(GpuBackend& backend, const WeightSource* checkpoint, std::span<const LentTensor> lent,
                             const std::optional<SharedWeights>& shared)
    : checkpoint_(checkpoint), shared_(shared), stream_(backend.create_stream()) {
  const std::string from_checkpoint = checkpoint == nullptr ? "" : checkpoint->name();
  const std::string from_caller = lent.empty() ? "" : "lent tensors";
  name_ = from_checkpoint + (from_checkpoint.empty() || from_caller.empty() ? "" : " and ") + from_caller;
  for (const LentTensor& tensor : lent) add_lent(tensor);
  add_checkpoint(lent);
  by_name_ = index_by_name(tensors_);
}

void DrafterSource::add_lent(const LentTensor& lent) {
  check_lent(lent, shared_.has_value());
  for (const SourceTensor& other : tensors_) {
    if (other.name == lent.name) refuse(lent, "is lent twice", "one tensor of a name", describe(lent.tensor));
  }
  tensors_.push_back({.name = lent.name,
                      .dtype_name = std::string(to_string(lent.tensor.dtype())),
                      .dtype = lent.tensor.dtype(),
                      .shape = lent.tensor.shape(),
                      .bytes = lent.tensor.bytes(),
                      .origin = kLentOrigin});
  lent_.push_back(lent.tensor);
}

void DrafterSource::add_checkpoint(std::span<const LentTensor> lent) {
  if (checkpoint_ == nullptr) return;
  std::set<std::string_view> lent_weights;
  for (const LentTensor& tensor : lent) lent_weights.insert(weight_of(tensor.name));
  const auto stored = checkpoint_->tensors();
  for (size_t i = 0; i < stored.size(); ++i) {
    const TensorOwner owner = tensor_owner(stored[i].name);
    const bool is_wanted = owner == TensorOwner::kDraft || (owner == TensorOwner::kShared && !shared_);
    if (!is_wanted || lent_weights.contains(weight_of(stored[i].name))) continue;
    tensors_.push_back(stored[i]);
    checkpoint_index_.push_back(i);
  }
}

std::optional<size_t> DrafterSource::find(std::string_view tensor_name) const {
  const auto found = by_name_.find(tensor_name);
  return found == by_name_.end() ? std::nullopt : std::optional(found->second);
}

std::span<const std::byte> DrafterSource::read(size_t index, uint64_t begin, size_t count,
                                               std::vector<std::byte>& scratch) const {
  const Tensor* tensor = resident(index);
  if (tensor == nullptr) return checkpoint_->read(checkpoint_index_[index - lent_.size()], begin, count, scratch);
  check_source_range(tensors_[index], begin, count);
  scratch.resize(count);
  const std::scoped_lock lock(mutex_);
  stream_->download(tensor->view().slice(static_cast<size_t>(begin), count), scratch);
  return scratch;
}

void DrafterSource::release(std::span<const std::byte> bytes) const {
  if (checkpoint_ != nullptr) checkpoint_->release(bytes);
}

std::optional<RandomRecipe> DrafterSource::recipe(size_t index) const {
  return resident(index) == nullptr ? checkpoint_->recipe(checkpoint_index_[index - lent_.size()]) : std::nullopt;
}

const Tensor* DrafterSource::resident(size_t index) const { return index < lent_.size() ? &lent_[index] : nullptr; }

}  // namespace foretoken
