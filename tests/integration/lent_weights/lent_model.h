// Checkpoints whose tensors lie in device memory as an engine would hold them, and what a head drafts.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "batch_model.h"
#include "models/checkpoint.h"
#include "models/drafter_weights.h"
#include "tests/unit/checkpoint/editable_checkpoint.h"
#include "tests/unit/checkpoint/quantised_checkpoint.h"
#include "tests/unit/checkpoint/test_files.h"

namespace foretoken::test {

/// A checkpoint folder made from one of tests/data.
struct Variant {
  const char* name;
  const char* checkpoint;
  std::optional<Stored> stored{};  // of all linear weights of the draft head and of an LM head of its own
  bool splits_experts = false;     // a tensor per expert
};

class VariantFolder {
 public:
  explicit VariantFolder(const Variant& variant);

  [[nodiscard]] const std::filesystem::path& path() const { return folder_.path(); }
  [[nodiscard]] const EditableCheckpoint& checkpoint() const { return checkpoint_; }
  [[nodiscard]] ModelConfig config() const { return load_model_config(path()); }
  /// The format that most linear weights of the head have.
  [[nodiscard]] WeightFormat format() const { return format_; }
  /// Bytes in the files of all tensors whose name `accepts` says yes to.
  [[nodiscard]] uint64_t bytes(const std::function<bool(std::string_view)>& accepts) const;

 private:
  TemporaryFolder folder_;
  EditableCheckpoint checkpoint_;
  WeightFormat format_ = WeightFormat::kBF16;
};

/// Everything that a drafter needs; only the head; only the embedding and the LM head.
[[nodiscard]] bool is_of_drafter(std::string_view tensor_name);
[[nodiscard]] bool is_of_head(std::string_view tensor_name);
[[nodiscard]] bool is_of_both(std::string_view tensor_name);

/// Tensors of a checkpoint in memory that the library did not allocate: one block of it, with tensors at multiples of
/// kNativeAlignment and of nothing more.
class LentTensors {
 public:
  LentTensors(GpuBackend& backend, const EditableCheckpoint& checkpoint, const std::function<bool(std::string_view)>& accepts);

  [[nodiscard]] const std::vector<LentTensor>& all() const { return tensors_; }
  [[nodiscard]] const Tensor& at(const std::string& name) const;

 private:
  Buffer memory_;
  Buffer adopted_;  // the same memory, as a caller's
  std::vector<LentTensor> tensors_;
};

/// What a head drafts for several sequences over a few rounds, and its cache rows: bits only.
struct DraftedText {
  std::vector<std::vector<int32_t>> blocks;
  std::vector<std::byte> logprobs;
  std::vector<std::byte> rows;

  friend bool operator==(const DraftedText&, const DraftedText&) = default;
};
[[nodiscard]] DraftedText drafted_by(BatchModel& model, const DraftHead& head, DType cache_dtype = DType::kBF16);

}  // namespace foretoken::test
