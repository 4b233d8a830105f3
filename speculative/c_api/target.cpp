#include "speculative/c_api/target.h"

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "speculative/c_api/boundary.h"
#include "speculative/c_api/model_options.h"

namespace foretoken::c_api {
namespace {

/// One sequence of a target.
class TargetSequenceObject final : public DeviceChild {
 public:
  static constexpr std::string_view kKind = "target sequence";

  TargetSequenceObject(std::shared_ptr<TargetObject> owner, TargetSequence made)
      : DeviceChild(owner->device()), target(std::move(owner)), sequence(std::move(made)) {}
  ~TargetSequenceObject() override { target->forget(sequence); }

  std::shared_ptr<TargetObject> target;
  TargetSequence sequence;
};

TargetRunnerOptions runner_options(const foretoken_target_options& options, const ModelConfig& config,
                                   const Capabilities& device) {
  const int32_t step_rows = options.max_step_rows == 0 ? 16 : options.max_step_rows;
  return {.max_seq_len = seq_len_of(options.max_seq_len, config),
          .max_sequences = sequences_of(options.max_sequences),
          .prefill_chunk = prefill_chunk_of(options.prefill_chunk),
          .max_verify_rows = require_range("options.max_step_rows", step_rows, 1, TargetRunner::kMaxVerifyRows),
          .prefill_precision = prefill_precision_of(options.prefill_dtype, device),
          .cache_dtype = cache_dtype_of(options.kv_dtype),
          .activation_dtype = device.activation_dtype(optional_dtype(options.activation_dtype, "options.activation_dtype"))};
}

void check_ids(const TargetObject& target, std::span<const int32_t> token_ids, std::string_view name) {
  for (const int32_t id : token_ids) require_range(name, id, 0, target.model().config.vocab_size - 1);
}

/// The parts of a step, checked: every sequence is of `target` and there once.
std::vector<StepPart> step_parts(const TargetObject& target, std::span<foretoken_step> steps,
                                 std::vector<std::shared_ptr<TargetSequenceObject>>& sequences) {
  std::vector<StepPart> parts;
  for (const foretoken_step& step : steps) {
    auto object = find<TargetSequenceObject>(step.sequence);
    if (object->target.get() != &target) fail_argument("sequence", "one of this target", "one of another");
    if (std::ranges::find(sequences, object) != sequences.end()) {
      fail_argument("steps", "each sequence once", "one of them twice");
    }
    require_range("num_rows", step.num_rows, 1, object->target->runner().options().max_verify_rows);
    const std::span<const int32_t> ids(&require(step.token_ids, "token_ids"), static_cast<size_t>(step.num_rows));
    check_ids(target, ids, "token_ids");
    require(step.picks, "picks");
    const int64_t room = object->target->runner().options().max_seq_len - object->sequence.num_tokens();
    require_range("num_rows in a sequence with room for max_seq_len tokens", step.num_rows, 1, room);
    parts.push_back({.sequence = &object->sequence, .token_ids = ids});
    sequences.push_back(std::move(object));
  }
  return parts;
}

void run_step(TargetObject& target, std::span<foretoken_step> steps) {
  std::vector<std::shared_ptr<TargetSequenceObject>> sequences;
  const std::vector<StepPart> parts = step_parts(target, steps, sequences);
  target.end_prefill();
  target.runner().stage(parts, {});
  target.runner().run();
  const std::vector<StepResult> results = target.runner().finish();
  int64_t first_row = 0;
  for (size_t i = 0; i < steps.size(); ++i) {
    std::ranges::copy(results[i].target_token_ids, steps[i].picks);
    steps[i].num_accepted = results[i].num_accepted;
    steps[i].hidden = target.rows(first_row, steps[i].num_rows);
    first_row += steps[i].num_rows;
  }
}

int64_t prefill(TargetSequenceObject& object, std::span<const int32_t> token_ids) {
  TargetRunner& runner = object.target->runner();
  check_ids(*object.target, token_ids, "token_ids");
  const int64_t first = object.sequence.num_tokens();
  const int64_t rows = runner.next_chunk(first, first + static_cast<int64_t>(token_ids.size()));
  require_range("tokens of a sequence", first + rows, 1, runner.options().max_seq_len);
  if (object.sequence.num_commit() != 0) runner.commit(object.sequence);
  object.target->end_prefill();
  runner.prefill_chunk(object.sequence, token_ids.first(static_cast<size_t>(rows)));
  object.target->begin_finish(&object.sequence, rows);
  return rows;
}

}  // namespace

TargetObject::TargetObject(const std::shared_ptr<DeviceObject>& on_device, ModelFiles model_files,
                           const TargetRunnerOptions& options, foretoken_norm hidden_kind)
    : DeviceChild(on_device),
      files_(std::move(model_files)),
      model_(load_model(backend(), *files_.source, files_.config, {.load_mtp = false})),
      runner_(backend(), stream(), model_.config, model_.target, options, round_),
      hidden_kind_(hidden_kind) {
  round_.allocate(backend());
  stream().synchronize();
}

TargetObject::~TargetObject() { HandleTable::instance().remove(reinterpret_cast<uintptr_t>(hidden_buffer_)); }

const Tensor& TargetObject::hidden() const {
  return hidden_kind_ == FORETOKEN_POST_NORM ? runner_.model().hidden() : runner_.model().residual();
}

foretoken_rows TargetObject::rows(int64_t first, int64_t count) {
  const Tensor& all = hidden();
  if (hidden_buffer_ == nullptr) {
    hidden_buffer_ = make_handle<foretoken_buffer>(std::make_shared<BufferObject>(device(), all.view(), weak_from_this()));
  }
  return {.host = nullptr,
          .buffer = hidden_buffer_,
          .offset = dtype_bytes(all.dtype(), static_cast<size_t>(first * all.dim(1))),
          .num_rows = count,
          .row_stride = 0,
          .dtype = dtype_for(all.dtype())};
}

foretoken_rows TargetObject::finish_prefill(const TargetSequence& sequence, int32_t& next_token_id) {
  if (prefilled_ != &sequence) {
    throw Error(ErrorCode::kInvalidState, "the target's last call was no foretoken_target_prefill of this sequence");
  }
  runner_.finish_prefill(sequence, std::exchange(prefilled_rows_, 0));
  prefilled_ = nullptr;
  next_token_id = runner_.read_picks(1).front();
  return rows(0, 1);
}

}  // namespace foretoken::c_api

using namespace foretoken;
using namespace foretoken::c_api;

foretoken_status foretoken_target_load(foretoken_device* device, const char* model, const foretoken_target_options* options,
                                       foretoken_target** target) {
  return guard([&] {
    Locked<DeviceObject> on_device(device);
    require(target, "target");
    const auto given = read_struct(options, "options");
    ModelFiles files = open_model_files(text_or_empty(model));
    const auto runner = runner_options(given, files.config, on_device->backend().capabilities());
    const foretoken_norm hidden = norm_of(given.hidden, "options.hidden");
    *target = make_handle<foretoken_target>(std::make_shared<TargetObject>(on_device.shared(), std::move(files), runner, hidden));
  });
}

foretoken_status foretoken_target_free(foretoken_target* target) {
  return guard([&] { free_handle<TargetObject>(target); });
}

foretoken_status foretoken_target_get_info(foretoken_target* target, foretoken_target_info* info) {
  return guard([&] {
    Locked<TargetObject> object(target);
    const ModelConfig& config = object->model().config;
    const TargetRunnerOptions& options = object->runner().options();
    write_struct(info,
                 {.struct_size = 0,
                  .hidden_size = config.hidden_size,
                  .vocab_size = config.vocab_size,
                  .max_seq_len = options.max_seq_len,
                  .max_sequences = options.max_sequences,
                  .max_step_rows = static_cast<int32_t>(options.max_verify_rows),
                  .prefill_chunk = static_cast<int32_t>(options.prefill_chunk),
                  .weight_bytes = object->model().weight_bytes},
                 "info");
  });
}

foretoken_status foretoken_target_sequence_create(foretoken_target* target, int64_t max_tokens,
                                                  foretoken_target_sequence** sequence) {
  return guard([&] {
    Locked<TargetObject> object(target);
    require(sequence, "sequence");
    require_range("max_tokens", max_tokens, 1, object->runner().options().max_seq_len);
    *sequence = make_handle<foretoken_target_sequence>(
        std::make_shared<TargetSequenceObject>(object.shared(), object->runner().create_sequence(max_tokens)));
  });
}

foretoken_status foretoken_target_sequence_free(foretoken_target_sequence* sequence) {
  return guard([&] { free_handle<TargetSequenceObject>(sequence); });
}

foretoken_status foretoken_target_sequence_get(foretoken_target_sequence* sequence, int64_t* num_tokens) {
  return guard([&] {
    Locked<TargetSequenceObject> object(sequence);
    require(num_tokens, "num_tokens") = object->sequence.num_tokens();
  });
}

foretoken_status foretoken_target_prefill(foretoken_target_sequence* sequence, const int32_t* token_ids, int64_t num_tokens,
                                          int64_t* num_taken, foretoken_rows* hidden) {
  return guard([&] {
    Locked<TargetSequenceObject> object(sequence);
    require(num_taken, "num_taken");
    require(hidden, "hidden");
    require_range("num_tokens", num_tokens, 1, std::numeric_limits<int32_t>::max());
    *num_taken = prefill(*object, {&require(token_ids, "token_ids"), static_cast<size_t>(num_tokens)});
    *hidden = object->target->rows(0, *num_taken);
  });
}

foretoken_status foretoken_target_finish_prefill(foretoken_target_sequence* sequence, int32_t* next_token_id,
                                                 foretoken_rows* hidden) {
  return guard([&] {
    Locked<TargetSequenceObject> object(sequence);
    require(next_token_id, "next_token_id");
    require(hidden, "hidden");
    *hidden = object->target->finish_prefill(object->sequence, *next_token_id);
  });
}

foretoken_status foretoken_target_step(foretoken_target* target, foretoken_step* steps, size_t num_steps) {
  return guard([&] {
    Locked<TargetObject> object(target);
    require_range("num_steps", static_cast<int64_t>(std::min<size_t>(num_steps, 1U << 20)), 1,
                  object->runner().options().max_sequences);
    run_step(*object, {&require(steps, "steps"), num_steps});
  });
}
