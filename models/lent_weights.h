// Weights of a drafter that the caller holds in device memory already, and the source that puts them before a checkpoint's.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/backend.h"
#include "layers/weights.h"
#include "models/weight_source.h"

namespace foretoken {

/// A tensor of the caller's, called as checkpoints call it: "mtp.fc.weight", "lm_head.weight". Its dtype and shape are those of
/// a checkpoint too (NVFP4 codes: U8 [N, K / 2]).
struct LentTensor {
  std::string name;
  Tensor tensor;  // contiguous, at a multiple of kNativeAlignment
};

/// The tensors of a draft head, the embedding and the LM head: lent ones, and those of a checkpoint for all that is not lent.
/// Tensors of the target's own are left out.
///
/// A weight is lent with all of its scales, and routed experts all together: what the checkpoint has of such a weight is left
/// out. What was lent must be written before this reads it, and must stay as it is while anything made from it is used.
class DrafterSource final : public WeightSource {
 public:
  /// `checkpoint` may be null when everything is lent; it must outlive this, like the backend. `shared`: embedding and LM head of
  /// a target that is loaded already, used as they are, whatever the checkpoint has. Throws InvalidArgument, with the name, for a
  /// lent tensor that is absent, not contiguous or not aligned, that is lent twice, or that belongs to no drafter.
  DrafterSource(GpuBackend& backend, const WeightSource* checkpoint, std::span<const LentTensor> lent,
                const std::optional<SharedWeights>& shared = std::nullopt);

  [[nodiscard]] const std::optional<SharedWeights>& shared() const { return shared_; }

  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] std::span<const SourceTensor> tensors() const override { return tensors_; }
  [[nodiscard]] std::optional<size_t> find(std::string_view tensor_name) const override;
  [[nodiscard]] std::span<const std::byte> read(size_t index, uint64_t begin, size_t count,
                                                std::vector<std::byte>& scratch) const override;
  void release(std::span<const std::byte> bytes) const override;
  [[nodiscard]] std::optional<RandomRecipe> recipe(size_t index) const override;
  [[nodiscard]] const Tensor* resident(size_t index) const override;

 private:
  void add_lent(const LentTensor& lent);
  void add_checkpoint(std::span<const LentTensor> lent);

  const WeightSource* checkpoint_;
  std::optional<SharedWeights> shared_;
  std::string name_;
  std::vector<SourceTensor> tensors_;  // lent ones first
  std::vector<Tensor> lent_;
  std::vector<size_t> checkpoint_index_;  // of the tensors behind the lent ones
  std::map<std::string, size_t, std::less<>> by_name_;
  mutable std::mutex mutex_;  // of the stream
  std::unique_ptr<Stream> stream_;
};

}  // namespace foretoken
