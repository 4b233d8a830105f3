// A draft head without its target: proposers over random token ids and hidden states, and their rows as bytes.
#pragma once

#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "backends/backend.h"
#include "models/model_weights.h"
#include "speculative/drafter_parts.h"

namespace foretoken::test {

/// Opens the device that FORETOKEN_TEST_BACKEND selects, the CPU when it is unset.
[[nodiscard]] std::unique_ptr<GpuBackend> open_test_device();

/// A head in `formats` and rows of hidden states that it can be fed.
class BatchModel {
 public:
  static constexpr int64_t kHiddenRows = 512;

  BatchModel(GpuBackend& backend, const std::string& checkpoint, const DraftFormats& formats = {});

  [[nodiscard]] GpuBackend& backend() { return backend_; }
  [[nodiscard]] Stream& stream() { return *stream_; }
  [[nodiscard]] const LoadedModel& loaded() const { return loaded_; }
  [[nodiscard]] const DraftHead& head() const { return head_; }
  [[nodiscard]] const Tensor& hidden() const { return hidden_; }  // [kHiddenRows, hidden_size] F32
  [[nodiscard]] int32_t random_id(std::mt19937_64& generator) const;
  [[nodiscard]] std::vector<std::byte> read(const Tensor& tensor);

 private:
  GpuBackend& backend_;
  LoadedModel loaded_;
  std::unique_ptr<Stream> stream_;
  DraftHead head_;
  Buffer hidden_memory_;
  Tensor hidden_;
};

/// A proposer with the round's metadata to itself.
class BatchDrafter {
 public:
  BatchDrafter(BatchModel& model, const MtpProposerOptions& options) : BatchDrafter(model, model.head(), options) {}
  /// With another head of the same shapes, over the model's hidden states.
  BatchDrafter(BatchModel& model, const DraftHead& head, const MtpProposerOptions& options);

  [[nodiscard]] MtpProposer& proposer() { return *proposer_; }

  /// The blocks and log-probabilities (empty where they are not measured) of a propose, a line for each part.
  struct Drafted {
    std::vector<std::vector<int32_t>> blocks;  // [parts][1 + num_drafts]
    std::vector<std::vector<float>> logprobs;  // [parts][num_drafts]
  };
  [[nodiscard]] Drafted propose(std::span<const DraftPart> parts);
  /// K and V of the first rows of a sequence whose rows were taken out, row after row.
  [[nodiscard]] std::vector<std::byte> rows(const DrafterKv& kv);

 private:
  BatchModel& model_;
  MetadataBuffer round_;
  std::unique_ptr<MtpProposer> proposer_;
};

}  // namespace foretoken::test
