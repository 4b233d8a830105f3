// The tensors of a checkpoint directory: one model.safetensors, or shards with an index, and a separate mtp.safetensors when
// there.
#pragma once

#include <filesystem>
#include <vector>

#include "models/safetensors.h"
#include "models/weight_source.h"

namespace foretoken {

class Checkpoint final : public WeightSource {
 public:
  /// Maps all files of `directory` and checks them against each other; reads no tensor. Throws InvalidArgument (no such
  /// directory) and FormatError: no weights at all, a shard of the index missing, a tensor of the index not in its shard or in
  /// another one too, a tensor of a shard that the index does not know, a shard name that leaves the directory, and what
  /// SafetensorsFile finds.
  explicit Checkpoint(const std::filesystem::path& directory);

  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] std::span<const SourceTensor> tensors() const override { return tensors_; }
  [[nodiscard]] std::optional<size_t> find(std::string_view tensor_name) const override;
  [[nodiscard]] std::span<const std::byte> read(size_t index, uint64_t begin, size_t count,
                                                std::vector<std::byte>& scratch) const override;
  void release(std::span<const std::byte> bytes) const override;
  [[nodiscard]] std::optional<RandomRecipe> recipe(size_t) const override { return std::nullopt; }

 private:
  void open_files(const std::filesystem::path& directory);
  void open_shards(const std::filesystem::path& directory, const std::filesystem::path& index_path);

  std::string name_;
  std::vector<SafetensorsFile> files_;
  std::vector<SourceTensor> tensors_;
  std::vector<std::span<const std::byte>> bytes_;  // of each tensor
  std::map<std::string, size_t, std::less<>> by_name_;
};

}  // namespace foretoken
