#include "speculative/target_runner.h"

#include <algorithm>
#include <string>

#include "core/error.h"
#include "layers/weight_operators.h"
#include "models/kv_scales.h"
#include "speculative/batch_bucket.h"
#include "speculative/target_caches.h"

namespace foretoken {
namespace {

/// Integers of a vector of 16 bytes: what the host reads of a step is made of whole ones.
constexpr int64_t kVector = 4;

int64_t whole_vectors(int64_t count) { return (count + kVector - 1) / kVector * kVector; }

/// Rows of the largest step.
int64_t max_step_rows(const TargetRunnerOptions& options) {
  return batch_bucket(options.max_sequences) * options.max_verify_rows;
}

void check_range(const std::string& what, int64_t value, int64_t most) {
  if (value >= 1 && value <= most) return;
  throw Error(ErrorCode::kInvalidArgument,
              {.what = what, .where = "target runner", .expected = "1 .. " + std::to_string(most), .got = std::to_string(value)});
}

/// The options, once they are known to be possible and the device to have the operators of the steps round the model.
TargetRunnerOptions supported_options(const GpuBackend& backend, const LinearWeight& lm_head, TargetRunnerOptions options) {
  check_range("sequences", options.max_sequences, kMaxBatch);
  check_range("verify rows of a sequence", options.max_verify_rows, TargetRunner::kMaxVerifyRows);
  ops::require_any<SelectTokens, AcceptDrafts>(backend, "target steps");
  if (options.keep_logits) {
    ops::require_any<Argmax>(backend, "target steps");
    require_linear(backend, "target steps: lm_head", lm_head, options.activation_dtype, {1, TargetModel::kMaxPickRows});
  }
  return options;
}

}  // namespace

TargetRunner::TargetRunner(GpuBackend& backend, Stream& stream, const ModelConfig& config, const TargetWeights& weights,
                           const TargetRunnerOptions& options, MetadataBuffer& round)
    : backend_(backend),
      stream_(stream),
      options_(supported_options(backend, weights.lm_head, options)),
      max_step_rows_(max_step_rows(options)),
      model_(backend, config, weights,
             {.max_rows = std::max(options.prefill_chunk, max_step_rows_),
              .num_parked_rows = options.num_parked_rows,
              .max_seq_len = options.max_seq_len,
              .cache_dtype = options.cache_dtype,
              .activation_dtype = options.activation_dtype}),
      kv_cache_(backend, target_kv_config(config, options)),
      states_(backend, target_state_config(config, options)),
      caches_(target_cache_views(config, kv_cache_, states_)),
      prefill_(backend, prefill_metadata_, 1, options.prefill_chunk, kv_cache_.config().max_blocks_per_seq, options.max_seq_len),
      step_(backend, round, batch_bucket(options.max_sequences), max_step_rows_, kv_cache_.config().max_blocks_per_seq,
            options.max_seq_len) {
  if (options.sampling) {
    SamplerOptions sampling = *options.sampling;
    sampling.vocab_size = config.vocab_size;
    sampling.max_sequences = options.max_sequences;
    sampling.max_rows = max_step_rows_;
    sampling.max_drafts = options.max_verify_rows - 1;
    sampler_.emplace(backend, round, sampling);
  }
  if (options.cache_dtype == DType::kE4M3) kv_cache_.set_scales(stream, kv_scales(backend, stream, weights.layers));
  prefill_metadata_.allocate(backend);
  allocate_outputs(backend);
}

void TargetRunner::allocate_outputs(GpuBackend& backend) {
  const int64_t num_counts = whole_vectors(batch_bucket(options_.max_sequences));
  const int64_t num_picks = whole_vectors(max_step_rows_);
  const auto offset = [](int64_t elements) { return dtype_bytes(DType::kI32, static_cast<size_t>(elements)); };
  outputs_ = backend.allocate(offset(num_counts + 2 * num_picks));
  read_back_ = backend.allocate(offset(num_counts + num_picks), MemoryKind::kHostVisible);
  num_accepted_ = outputs_.tensor(DType::kI32, {num_counts});
  picks_ = outputs_.tensor(DType::kI32, {num_picks}, offset(num_counts));
  token_ids_ = outputs_.tensor(DType::kI32, {num_picks}, offset(num_counts + num_picks));
  if (!writes_logits() && !sampler_) return;
  const Shape shape{max_step_rows_, model_.config().vocab_size};
  logits_memory_ = backend.allocate(dtype_bytes(DType::kF32, static_cast<size_t>(shape.num_elements())));
  logits_ = logits_memory_.tensor(DType::kF32, shape);
}

TargetSequence TargetRunner::create_sequence(int64_t budget_tokens, const ResumeFn& resume) {
  const auto slot = states_.allocate(stream_);
  if (!slot)
    throw Error(ErrorCode::kOutOfMemory, "all " + std::to_string(options_.max_sequences) + " recurrent state slots are in use");
  TargetSequence sequence(kv_cache_.create_table(), states_, *slot);
  if (resume) sequence.num_tokens_ = resume(sequence.blocks_, *slot);
  if (!sequence.blocks_.reserve(budget_tokens)) {
    throw Error(ErrorCode::kOutOfMemory,
                {.what = "no room for another sequence",
                 .where = "KV cache",
                 .expected = std::to_string(budget_tokens) + " positions",
                 .got = std::to_string(kv_cache_.pool().num_free()) + " free blocks of " + std::to_string(options_.block_size)});
  }
  return sequence;
}

void TargetRunner::commit(TargetSequence& sequence) {
  states_.commit(stream_, sequence.state_slot_, sequence.num_commit_);
  sequence.num_commit_ = 0;
}

int64_t TargetRunner::missing_blocks(const TargetSequence& sequence, int64_t num_rows) const {
  const int64_t block_size = options_.block_size;
  const int64_t needed = (sequence.num_tokens() + num_rows + block_size - 1) / block_size;
  return std::max<int64_t>(0, needed - static_cast<int64_t>(sequence.blocks().blocks().size()));
}

void TargetRunner::reserve_rows(std::span<const StepPart> parts) {
  for (const StepPart& part : parts) {
    const auto rows = static_cast<int64_t>(part.token_ids.size());
    if (reserve(*part.sequence, rows)) continue;
    throw Error(ErrorCode::kOutOfMemory,
                {.what = "the KV cache has no free block",
                 .expected = "room for position " + std::to_string(part.sequence->num_tokens() + rows - 1),
                 .got = std::to_string(kv_cache_.pool().num_free()) + " free blocks"});
  }
}

/// Picks after rows [first_row, first_row + num_rows) of the last pass -> picks().
void TargetRunner::pick(CommandList& cmd, int64_t first_row, int64_t num_rows) const {
  const Tensor hidden = model_.hidden().rows(first_row, num_rows);
  const Tensor picks = picks_.rows(0, num_rows);
  if (writes_logits()) {
    model_.logits(cmd, hidden, logits_.rows(0, num_rows));
    ops::argmax(cmd, logits_.rows(0, num_rows), picks);
    return;
  }
  for (int64_t row = 0; row < num_rows; row += TargetModel::kMaxPickRows) {
    const int64_t rows = std::min(TargetModel::kMaxPickRows, num_rows - row);
    model_.pick(cmd, hidden.rows(row, rows), picks.rows(row, rows));
  }
}

/// Picks of as many rows as `token_ids`, which the step fed, from `first_row` of the last pass on.
void TargetRunner::pick_sampled(CommandList& cmd, int64_t first_row, const Tensor& token_ids) const {
  const int64_t num_rows = token_ids.dim(0);
  const Tensor logits = logits_.rows(0, num_rows);
  model_.logits(cmd, model_.hidden().rows(first_row, num_rows), logits);
  sampler_->record_picks(cmd, logits, token_ids, picks_.rows(0, num_rows));
}

/// The host then reads them without asking the device for another copy.
void TargetRunner::read_back(CommandList& cmd, int64_t num_rows) const {
  const size_t bytes = dtype_bytes(DType::kI32, static_cast<size_t>(num_accepted_.dim(0) + whole_vectors(num_rows)));
  cmd.copy(outputs_.view().slice(0, bytes), read_back_.view().slice(0, bytes));
}

std::span<const int32_t> TargetRunner::wait_for_picks() {
  stream_.synchronize();
  const auto* read = reinterpret_cast<const int32_t*>(read_back_.view().buffer->host_data());
  return {read + num_accepted_.dim(0), static_cast<size_t>(picks_.dim(0))};
}

std::span<const int32_t> TargetRunner::accepted_counts() const {
  return {reinterpret_cast<const int32_t*>(read_back_.view().buffer->host_data()), static_cast<size_t>(num_accepted_.dim(0))};
}

void TargetRunner::prefill_chunk(TargetSequence& sequence, std::span<const int32_t> token_ids) {
  const StepPart part{.sequence = &sequence, .token_ids = token_ids};
  const StepShape shape{.num_rows = static_cast<int64_t>(token_ids.size())};
  check_range("rows of a prefill pass", shape.num_rows, options_.prefill_chunk);
  reserve_rows({&part, 1});
  prefill_.fill({&part, 1}, shape, 0);
  prefill_.upload(stream_);
  stream_.run([&](CommandList& cmd) {
    model_.forward(cmd,
                   {.input_ids = prefill_.host_token_ids(shape.num_rows),
                    .view = prefill_.view(shape),
                    .update = StateUpdate::kInPlace,
                    .precision = options_.prefill_precision},
                   caches_);
  });
  sequence.num_tokens_ += shape.num_rows;
  sequence.num_commit_ = 0;
}

void TargetRunner::finish_prefill(const TargetSequence& sequence, int64_t num_rows, bool is_sampled) {
  if (is_sampled) {
    const SamplerPart part{.slot = sequence.state_slot(), .first_position = sequence.num_tokens() - 1};
    sampler_->stage(stream_, {&part, 1});
    step_.upload(stream_);
  }
  stream_.run([&](CommandList& cmd) {
    if (is_sampled) {
      pick_sampled(cmd, num_rows - 1, token_ids_.rows(0, 1));
    } else {
      pick(cmd, num_rows - 1, 1);
    }
    read_back(cmd, 1);
    if (num_rows == 1) return;
    for (const Tensor& tensor : {model_.hidden(), model_.residual()})
      cmd.copy(tensor.rows(num_rows - 1, 1).view(), tensor.rows(0, 1).view());
  });
}

void TargetRunner::check_prompt(std::span<const int32_t> token_ids) const {
  if (token_ids.empty()) throw Error(ErrorCode::kInvalidArgument, "the prompt is empty, expected at least one token");
  for (int32_t id : token_ids) {
    if (id < 0 || id >= model_.config().vocab_size) {
      throw Error(ErrorCode::kInvalidArgument, {.what = "token id out of range",
                                                .expected = "0 .. " + std::to_string(model_.config().vocab_size - 1),
                                                .got = std::to_string(id)});
    }
  }
}

void TargetRunner::prefill(TargetSequence& sequence, std::span<const int32_t> token_ids, const ChunkFn& on_chunk) {
  check_prompt(token_ids);
  const int64_t begin = sequence.num_tokens_;
  const int64_t end = begin + static_cast<int64_t>(token_ids.size());
  int64_t rows = 0;
  for (int64_t first = begin; first < end; first += rows) {
    rows = next_chunk(first, end);
    prefill_chunk(sequence, token_ids.subspan(static_cast<size_t>(first - begin), static_cast<size_t>(rows)));
    if (on_chunk) on_chunk(first, rows);
  }
  finish_prefill(sequence, rows);
}

void TargetRunner::record_step(CommandList& cmd, const StepShape& shape, const Tensor& block_token_ids) const {
  const Tensor host_token_ids = step_.host_token_ids(shape.num_rows);
  const Tensor token_ids = block_token_ids ? token_ids_.rows(0, shape.num_rows) : host_token_ids;
  if (block_token_ids) {
    ops::dispatch(cmd, SelectTokens{.host_token_ids = host_token_ids,
                                    .source = block_token_ids.reshape({block_token_ids.shape().num_elements()}),
                                    .source_rows = step_.source_rows(shape.num_rows),
                                    .token_ids = token_ids});
  }
  model_.forward(cmd, {.input_ids = token_ids, .view = step_.view(shape), .update = shape.update}, caches_);
  const Tensor picks = picks_.rows(0, shape.num_rows);
  if (shape.is_sampled) {
    pick_sampled(cmd, 0, token_ids);
  } else {
    pick(cmd, 0, shape.num_rows);
  }
  if (shape.update == StateUpdate::kRecord) {
    const Tensor starts = step_.query_start_loc(shape.num_sequences);
    const Tensor num_accepted = num_accepted_.rows(0, shape.num_sequences);
    if (shape.is_sampled) {
      sampler_->record_accept(cmd, logits_.rows(0, shape.num_rows), token_ids, starts, picks, num_accepted);
    } else {
      ops::dispatch(
          cmd, AcceptDrafts{
                   .token_ids = token_ids, .target_token_ids = picks, .query_start_loc = starts, .num_accepted = num_accepted});
    }
  }
  read_back(cmd, shape.num_rows);
}

const Program& TargetRunner::program(const StepShape& shape, const Tensor& block_token_ids) {
  const ProgramKey key{shape, block_token_ids ? block_token_ids.address() : DeviceAddress{}};
  auto found = programs_.find(key);
  if (found == programs_.end()) {
    const std::string label = std::string(shape.update == StateUpdate::kInPlace ? "target step, " : "verify, ") +
                              std::to_string(shape.num_rows) + " rows of " + std::to_string(shape.num_sequences);
    const auto record = [this, shape, block_token_ids](CommandList& cmd) { record_step(cmd, shape, block_token_ids); };
    found = programs_.emplace(key, backend_.record(label, record)).first;
  }
  return found->second;
}

void TargetRunner::prepare(const Tensor& block_token_ids, int64_t num_sequences, int64_t num_drafts, bool is_sampled) {
  const int64_t bucket = batch_bucket(num_sequences);
  StepShape shape{.num_sequences = bucket, .num_rows = bucket * (1 + num_drafts), .is_sampled = is_sampled};
  if (num_drafts > 0) shape.update = StateUpdate::kRecord;
  program(shape, num_drafts > 0 ? block_token_ids : Tensor());
}

void TargetRunner::check_parts(std::span<const StepPart> parts, const Tensor& block_token_ids) const {
  check_range("sequences of a step", static_cast<int64_t>(parts.size()), options_.max_sequences);
  for (const StepPart& part : parts) {
    check_range("rows of a sequence in a step", static_cast<int64_t>(part.token_ids.size()), options_.max_verify_rows);
    if (part.is_sampled && !sampler_) throw Error(ErrorCode::kInvalidArgument, "a sampled step needs a runner with a sampler");
    if ((!block_token_ids || part.block_row < 0) && std::ranges::find(part.token_ids, -1) != part.token_ids.end()) {
      throw Error(ErrorCode::kInvalidArgument, "a sequence without a row of the drafter's token ids needs all from the host");
    }
  }
}

void TargetRunner::stage(std::span<const StepPart> parts, const Tensor& block_token_ids) {
  check_parts(parts, block_token_ids);
  reserve_rows(parts);
  staged_.clear();
  int64_t num_rows = 0;
  for (const StepPart& part : parts) {
    const auto rows = static_cast<int64_t>(part.token_ids.size());
    staged_.push_back({.sequence = part.sequence, .first_row = num_rows, .num_rows = rows});
    num_rows += rows;
  }
  const auto num_parts = static_cast<int64_t>(parts.size());
  const int64_t bucket = batch_bucket(num_parts);
  const bool is_plain = num_rows == num_parts && !block_token_ids;
  staged_shape_ = {.num_sequences = bucket,
                   .num_rows = row_bucket(num_rows, bucket),
                   .update = is_plain ? StateUpdate::kInPlace : StateUpdate::kRecord,
                   .is_sampled = std::ranges::any_of(parts, &StepPart::is_sampled)};
  staged_block_ = block_token_ids;
  step_.fill(parts, staged_shape_, block_token_ids ? block_token_ids.row_stride() : 0);
  if (staged_shape_.is_sampled) stage_sampler(parts);
}

void TargetRunner::stage_sampler(std::span<const StepPart> parts) {
  sampler_parts_.clear();
  for (const StepPart& part : parts) {
    const auto rows = static_cast<int64_t>(part.token_ids.size());
    sampler_parts_.push_back({.slot = part.is_sampled ? part.sequence->state_slot() : -1,
                              .num_rows = rows,
                              .first_position = part.sequence->num_tokens(),
                              .block_row = rows > 1 ? part.block_row : -1});
  }
  sampler_->stage(stream_, sampler_parts_);
}

bool TargetRunner::needs_draft_ids() const { return staged_shape_.is_sampled && sampler_->needs_draft_ids(sampler_parts_); }

void TargetRunner::stage_masks(std::span<const std::vector<int32_t>> drafts) {
  sampler_->stage_masks(stream_, sampler_parts_, drafts);
}

void TargetRunner::run() {
  if (staged_.empty()) throw Error(ErrorCode::kInvalidState, "no step is staged");
  step_.upload(stream_);
  stream_.run(program(staged_shape_, staged_block_));
  for (const Staged& part : staged_) {
    if (staged_shape_.update == StateUpdate::kRecord) {
      part.sequence->num_commit_ = RecurrentStateStore::kAcceptUnknown;
    } else {
      part.sequence->num_tokens_ += 1;
      part.sequence->num_commit_ = 0;
    }
  }
}

std::vector<StepResult> TargetRunner::finish() {
  const std::span<const int32_t> picks = wait_for_picks();
  const std::span<const int32_t> counts = accepted_counts();
  std::vector<StepResult> results;
  for (size_t i = 0; i < staged_.size(); ++i) {
    const Staged& part = staged_[i];
    const auto rows = picks.subspan(static_cast<size_t>(part.first_row), static_cast<size_t>(part.num_rows));
    StepResult& result = results.emplace_back(std::vector<int32_t>(rows.begin(), rows.end()));
    if (staged_shape_.update == StateUpdate::kInPlace) continue;
    result.num_accepted = counts[i];
    part.sequence->num_commit_ = result.num_accepted + 1;
    part.sequence->num_tokens_ += result.num_accepted + 1;
  }
  staged_.clear();
  return results;
}

void TargetRunner::keep_rows(TargetSequence& sequence, const StepResult& result, int64_t num_keep) {
  check_range("rows to keep", num_keep, static_cast<int64_t>(result.target_token_ids.size()));
  sequence.num_tokens_ += num_keep - sequence.num_commit_;
  sequence.num_commit_ = static_cast<int32_t>(num_keep);
}

void TargetRunner::decode(TargetSequence& sequence, int32_t token_id) {
  const StepPart part{.sequence = &sequence, .token_ids = {&token_id, 1}};
  stage({&part, 1}, {});
  run();
}

void TargetRunner::verify(TargetSequence& sequence, const Tensor& block_token_ids) {
  const std::vector<int32_t> on_device(static_cast<size_t>(block_token_ids.dim(0)), -1);
  const StepPart part{.sequence = &sequence, .token_ids = on_device, .block_row = 0};
  stage({&part, 1}, block_token_ids.reshape({1, block_token_ids.dim(0)}));
  run();
}

std::vector<int32_t> TargetRunner::read_picks(int64_t num_rows) {
  const auto picks = wait_for_picks().first(static_cast<size_t>(num_rows));
  return {picks.begin(), picks.end()};
}

}  // namespace foretoken
