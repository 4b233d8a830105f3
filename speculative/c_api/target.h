// The target model of the C API.
#pragma once

#include <memory>

#include "cache/metadata_buffer.h"
#include "foretoken/target.h"
#include "models/model_weights.h"
#include "speculative/c_api/device.h"
#include "speculative/engine.h"
#include "speculative/target_runner.h"

namespace foretoken::c_api {

/// A target and its caches, without a drafter.
class TargetObject final : public DeviceChild, public std::enable_shared_from_this<TargetObject> {
 public:
  static constexpr std::string_view kKind = "target";

  /// Loads the weights. Throws what load_model and TargetRunner throw.
  TargetObject(const std::shared_ptr<DeviceObject>& on_device, ModelFiles model_files, const TargetRunnerOptions& options,
               foretoken_norm hidden_kind);
  ~TargetObject() override;

  [[nodiscard]] const ModelFiles& files() const { return files_; }
  [[nodiscard]] const LoadedModel& model() const { return model_; }
  [[nodiscard]] TargetRunner& runner() { return runner_; }
  /// `count` hidden states of the last pass from row `first` on.
  [[nodiscard]] foretoken_rows rows(int64_t first, int64_t count);

  /// A pass over `num_rows` prompt tokens of `sequence` has run; finish_prefill may follow.
  void begin_finish(const TargetSequence* sequence, int64_t num_rows) {
    prefilled_ = sequence;
    prefilled_rows_ = num_rows;
  }
  /// Another pass is about to run.
  void end_prefill() { prefilled_ = nullptr; }
  /// The sequence is about to end.
  void forget(const TargetSequence& sequence) {
    if (prefilled_ == &sequence) end_prefill();
  }
  /// The token after the prompt, and the hidden state of its last token. Throws InvalidState.
  [[nodiscard]] foretoken_rows finish_prefill(const TargetSequence& sequence, int32_t& next_token_id);

 private:
  [[nodiscard]] const Tensor& hidden() const;

  ModelFiles files_;
  LoadedModel model_;
  MetadataBuffer round_;
  TargetRunner runner_;
  foretoken_norm hidden_kind_;
  const TargetSequence* prefilled_ = nullptr;
  int64_t prefilled_rows_ = 0;
  foretoken_buffer* hidden_buffer_ = nullptr;  // of the hidden states, once they were asked for
};

}  // namespace foretoken::c_api
