#include "speculative/c_api/drafter_setup.h"

#include <span>
#include <utility>

#include "models/draft_vocab.h"
#include "speculative/c_api/boundary.h"
#include "speculative/c_api/model_options.h"

namespace foretoken::c_api {
namespace {

LentTensor lent_tensor(const DeviceObject& device, const foretoken_weight& weight,
                       std::vector<std::shared_ptr<BufferObject>>& kept) {
  const std::string name(&require(weight.name, "weight.name"));
  require_range(name + ".rank", weight.rank, 0, 4);
  std::vector<int64_t> extents;
  for (int32_t axis = 0; axis < weight.rank; ++axis) {
    extents.push_back(require_range(name + ".shape", weight.shape[axis], 1, int64_t{1} << 40));
  }
  const DType dtype = dtype_of(weight.dtype, name + ".dtype");
  const Shape shape{std::span<const int64_t>(extents)};
  auto buffer = buffer_on(device, weight.buffer, name);
  const BufferView view = buffer->slice(name, weight.offset, dtype_bytes(dtype, static_cast<size_t>(shape.num_elements())));
  kept.push_back(std::move(buffer));
  return {.name = name, .tensor = Tensor(view, dtype, shape)};
}

/// Config and files, from the folder, the text or the target.
void set_model(DrafterSetup& setup, const foretoken_drafter_source& source) {
  if (source.model != nullptr) setup.files = open_model_files(source.model);
  if (source.config_json != nullptr) {
    setup.config = parse_model_config(source.config_json, "config_json");
  } else if (source.model != nullptr) {
    setup.config = setup.files.config;
  } else if (setup.target != nullptr) {
    setup.config = setup.target->files().config;
  } else {
    fail_argument("source", "a model, a target or config_json", "none of them");
  }
}

const WeightSource* checkpoint_of(const DrafterSetup& setup) {
  if (setup.files.source) return setup.files.source.get();
  return setup.target != nullptr ? setup.target->files().source.get() : nullptr;
}

std::optional<SharedWeights> shared_weights(const DrafterSetup& setup) {
  if (setup.target == nullptr) return std::nullopt;
  const TargetWeights& weights = setup.target->model().target;
  return SharedWeights{.embed_tokens = weights.embed_tokens, .lm_head = weights.lm_head};
}

RowPolicy row_policy_of(foretoken_row_policy rows) {
  switch (rows) {
    case FORETOKEN_ROWS_EXACT: return RowPolicy::kExact;
    case FORETOKEN_ROWS_REFEED_ACCEPTED: return RowPolicy::kRefeedAccepted;
    case FORETOKEN_ROWS_TRIM: return RowPolicy::kTrim;
  }
  fail_argument("options.rows", "a foretoken_row_policy", std::to_string(static_cast<int>(rows)));
}

MtpProposerOptions proposer_options(const foretoken_drafter_options& options, const ModelConfig& config,
                                    const Capabilities& device) {
  const bool is_post_hidden = norm_of(options.hidden, "options.hidden") == FORETOKEN_POST_NORM;
  const bool is_post_chain = norm_of(options.chain, "options.chain") == FORETOKEN_POST_NORM;
  const int32_t drafts = options.max_drafts == 0 ? FORETOKEN_MAX_DRAFTS : options.max_drafts;
  return {.max_seq_len = seq_len_of(options.max_seq_len, config),
          .max_sequences = sequences_of(options.max_sequences),
          .max_drafts = require_range("options.max_drafts", drafts, 1, FORETOKEN_MAX_DRAFTS),
          .max_append_rows = prefill_chunk_of(options.prefill_chunk),
          .cache_dtype = cache_dtype_of(options.kv_dtype),
          .activation_dtype = device.activation_dtype(optional_dtype(options.activation_dtype, "options.activation_dtype")),
          .rows = row_policy_of(options.rows),
          .hidden = is_post_hidden ? HiddenKind::kPostNorm : HiddenKind::kPreNorm,
          .chain = is_post_chain ? ChainKind::kPostNorm : ChainKind::kPreNorm,
          .measure_log_probabilities = options.log_probabilities != 0,
          .confidence_stop = options.confidence_stop == 0.0 ? std::nullopt : std::optional(options.confidence_stop)};
}

}  // namespace

DrafterSetup drafter_setup(std::shared_ptr<DeviceObject> device, const foretoken_drafter_source& source,
                           const foretoken_drafter_options& options) {
  DrafterSetup setup;
  setup.device = std::move(device);
  if (source.target != nullptr) {
    setup.target = find<TargetObject>(source.target);
    if (setup.target->device() != setup.device)
      fail_argument("source.target", "one on the same foretoken_device", "one on another");
  }
  set_model(setup, source);
  std::vector<LentTensor> lent;
  if (source.num_weights > 0) require(source.weights, "source.weights");
  for (const foretoken_weight& weight : std::span(source.weights, source.num_weights)) {
    lent.push_back(lent_tensor(*setup.device, weight, setup.lent));
  }
  GpuBackend& backend = setup.device->backend();
  setup.source = std::make_unique<DrafterSource>(backend, checkpoint_of(setup), lent, shared_weights(setup));
  setup.precision = draft_precision_of(options.precision, options.fc, options.experts,
                                       options.lm_head == nullptr ? "checkpoint" : options.lm_head);
  if (options.draft_vocab != nullptr) {
    setup.vocab = read_draft_vocab(options.draft_vocab, setup.config.vocab_size, setup.files.directory);
  }
  setup.options = proposer_options(options, setup.config, backend.capabilities());
  setup.prefill_precision = prefill_precision_of(options.prefill_dtype, backend.capabilities());
  return setup;
}

}  // namespace foretoken::c_api
