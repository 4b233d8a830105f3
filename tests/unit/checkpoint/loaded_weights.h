// Loads a checkpoint on a backend that stores every format, whatever this machine is, and reads weights back.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "models/checkpoint.h"
#include "models/model_weights.h"
#include "tests/support/reference_backend.h"
#include "tests/unit/checkpoint/editable_checkpoint.h"
#include "tests/unit/checkpoint/test_files.h"

namespace foretoken::test {

/// A backend with a model on it, taken down in the right order.
class LoadedWeights {
 public:
  explicit LoadedWeights(const WeightSource& source, const ModelConfig& config, const LoadOptions& options = {})
      : stream_(backend_.create_stream()), model_(load_model(backend_, source, config, options)) {}

  [[nodiscard]] const LoadedModel& model() const { return model_; }
  [[nodiscard]] std::vector<std::byte> bytes(const Tensor& tensor) const {
    std::vector<std::byte> host(tensor.bytes());
    stream_->download(tensor.view(), host);
    return host;
  }
  [[nodiscard]] std::vector<float> floats(const Tensor& tensor) const;
  /// Every weight of target and head by a name of this test's own.
  [[nodiscard]] std::map<std::string, std::vector<std::byte>> all() const;

 private:
  ReferenceBackend backend_;
  std::unique_ptr<Stream> stream_;
  LoadedModel model_;
};

[[nodiscard]] inline LoadedWeights load_directory(const std::filesystem::path& directory, const LoadOptions& options = {}) {
  return LoadedWeights(Checkpoint(directory), load_model_config(directory), options);
}

/// Writes the checkpoint to a folder that lasts as long as the call, and loads it.
[[nodiscard]] inline LoadedWeights load_edited(const EditableCheckpoint& checkpoint, const LoadOptions& options = {}) {
  const TemporaryFolder folder;
  checkpoint.write(folder.path());
  return load_directory(folder.path(), options);
}

}  // namespace foretoken::test
