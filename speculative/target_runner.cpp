#include "speculative/target_runner.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "core/error.h"
#include "core/fault.h"
#include "layers/weight_operators.h"
#include "models/kv_scales.h"

namespace foretoken {
namespace {

/// Integers that the host reads of a step: the picks, the number of accepted drafts; as many as make whole vectors of 16 bytes.
constexpr size_t kOutputs = TargetRunner::kMaxVerifyRows + 4;

int64_t count_layers(const ModelConfig& config, LayerType type) { return std::ranges::count(config.layer_types, type); }

PagedKvCacheConfig kv_config(const ModelConfig& config, const TargetRunnerOptions& options) {
  const auto blocks_per_seq = static_cast<int32_t>((options.max_seq_len + options.block_size - 1) / options.block_size);
  return {.num_layers = count_layers(config, LayerType::kFullAttention),
          .num_key_value_heads = config.num_key_value_heads,
          .head_dim = config.head_dim,
          .dtype = options.cache_dtype,
          .block_size = options.block_size,
          .num_blocks = blocks_per_seq * options.max_sequences,
          .max_blocks_per_seq = blocks_per_seq};
}

RecurrentStateConfig state_config(const ModelConfig& config, const TargetRunnerOptions& options) {
  return {.num_layers = count_layers(config, LayerType::kLinearAttention),
          .num_slots = options.max_sequences,
          .max_record_rows = TargetRunner::kMaxVerifyRows,
          .conv_channels = config.conv_channels(),
          .num_value_heads = config.linear_num_value_heads,
          .key_head_dim = config.linear_key_head_dim,
          .value_head_dim = config.linear_value_head_dim};
}

/// The options, once the device is known to have the operators of the steps round the model.
const TargetRunnerOptions& supported_options(const GpuBackend& backend, const LinearWeight& lm_head,
                                             const TargetRunnerOptions& options) {
  ops::require_any<AcceptGreedy>(backend, "target steps");
  if (options.override_drafts) ops::require_any<OverrideTokens>(backend, "target steps");
  if (options.keep_logits) {
    ops::require_any<Argmax>(backend, "target steps");
    require_linear(backend, "target steps: lm_head", lm_head, options.activation_dtype, {1, TargetRunner::kMaxVerifyRows});
  }
  return options;
}

TargetCaches cache_views(const ModelConfig& config, const PagedKvCache& kv, const RecurrentStateStore& states) {
  TargetCaches views;
  int64_t attention_idx = 0;
  int64_t linear_idx = 0;
  for (LayerType type : config.layer_types) {
    const bool full = type == LayerType::kFullAttention;
    views.kv.push_back(full ? kv.layer(attention_idx++) : PagedKvView{});
    views.recurrent.push_back(full ? RecurrentStateView{} : states.layer(linear_idx++));
  }
  return views;
}

}  // namespace

TargetSequence::TargetSequence(BlockTable blocks, RecurrentStateStore& states, int32_t state_slot)
    : blocks_(std::move(blocks)), states_(&states), state_slot_(state_slot) {}

TargetSequence::TargetSequence(TargetSequence&& other) noexcept
    : blocks_(std::move(other.blocks_)),
      states_(std::exchange(other.states_, nullptr)),
      state_slot_(other.state_slot_),
      num_tokens_(other.num_tokens_),
      num_commit_(other.num_commit_) {}

TargetSequence::~TargetSequence() {
  if (states_ != nullptr) states_->release(state_slot_);
}

TargetRunner::TargetRunner(GpuBackend& backend, Stream& stream, const ModelConfig& config, const TargetWeights& weights,
                           const TargetRunnerOptions& options)
    : backend_(backend),
      stream_(stream),
      options_(supported_options(backend, weights.lm_head, options)),
      model_(backend, config, weights,
             {.max_rows = std::max(options.prefill_chunk, kMaxVerifyRows),
              .max_seq_len = options.max_seq_len,
              .cache_dtype = options.cache_dtype,
              .activation_dtype = options.activation_dtype}),
      kv_cache_(backend, kv_config(config, options)),
      states_(backend, state_config(config, options)),
      caches_(cache_views(config, kv_cache_, states_)) {
  if (options.cache_dtype == DType::kE4M3) kv_cache_.set_scales(stream, kv_scales(backend, stream, weights.layers));
  declare_metadata(backend);
  allocate_outputs(backend);
}

void TargetRunner::declare_metadata(GpuBackend& backend) {
  const int64_t rows = model_.max_rows();
  input_ids_ = metadata_.add(DType::kI32, {rows});
  positions_ = metadata_.add(DType::kI32, {rows});
  slot_mapping_ = metadata_.add(DType::kI64, {rows});
  query_start_loc_ = metadata_.add(DType::kI32, {2});
  seq_lens_ = metadata_.add(DType::kI32, {1});
  state_slots_ = metadata_.add(DType::kI32, {1});
  num_commit_ = metadata_.add(DType::kI32, {1});
  forced_ = metadata_.add(DType::kI32, {kMaxVerifyRows - 1});
  block_table_ = metadata_.add(DType::kI32, {1, kv_cache_.config().max_blocks_per_seq});
  metadata_.allocate(backend);
  std::ranges::fill(metadata_.i32(forced_), -1);
}

void TargetRunner::allocate_outputs(GpuBackend& backend) {
  outputs_ = backend.allocate(dtype_bytes(DType::kI32, kOutputs));
  read_back_ = backend.allocate(outputs_.bytes(), MemoryKind::kHostVisible);
  picks_ = outputs_.tensor(DType::kI32, {kMaxVerifyRows});
  num_accepted_ = outputs_.tensor(DType::kI32, {1}, dtype_bytes(DType::kI32, kMaxVerifyRows));
  if (!writes_logits()) return;
  const Shape shape{kMaxVerifyRows, model_.config().vocab_size};
  logits_memory_ = backend.allocate(dtype_bytes(DType::kF32, static_cast<size_t>(shape.num_elements())));
  logits_ = logits_memory_.tensor(DType::kF32, shape);
}

TargetSequence TargetRunner::create_sequence(int64_t budget_tokens) {
  BlockTable blocks = kv_cache_.create_table();
  if (!blocks.reserve(budget_tokens)) {
    throw Error(ErrorCode::kOutOfMemory,
                {.what = "no room for another sequence",
                 .where = "KV cache",
                 .expected = std::to_string(budget_tokens) + " positions",
                 .got = std::to_string(kv_cache_.pool().num_free()) + " free blocks of " + std::to_string(options_.block_size)});
  }
  const auto slot = states_.allocate(stream_);
  if (!slot)
    throw Error(ErrorCode::kOutOfMemory, "all " + std::to_string(options_.max_sequences) + " recurrent state slots are in use");
  return TargetSequence(std::move(blocks), states_, *slot);
}

StepView TargetRunner::step_view(int64_t rows) const {
  return {.positions = metadata_.tensor(positions_).rows(0, rows),
          .slot_mapping = metadata_.tensor(slot_mapping_).rows(0, rows),
          .query_start_loc = metadata_.tensor(query_start_loc_),
          .seq_lens = metadata_.tensor(seq_lens_),
          .block_table = metadata_.tensor(block_table_),
          .state_slots = metadata_.tensor(state_slots_),
          .num_commit = metadata_.tensor(num_commit_),
          .max_seq_len = options_.max_seq_len};
}

void TargetRunner::reserve(TargetSequence& sequence, int64_t rows) {
  if (!sequence.blocks_.reserve(sequence.num_tokens_ + rows)) {
    throw Error(ErrorCode::kOutOfMemory, {.what = "the KV cache has no free block",
                                          .expected = "room for position " + std::to_string(sequence.num_tokens_ + rows - 1),
                                          .got = std::to_string(kv_cache_.pool().num_free()) + " free blocks"});
  }
}

/// The next `rows` positions of the sequence.
void TargetRunner::upload_metadata(const TargetSequence& sequence, int64_t rows) {
  const auto positions = metadata_.i32(positions_);
  const auto slots = metadata_.i64(slot_mapping_);
  for (int64_t row = 0; row < rows; ++row) {
    positions[static_cast<size_t>(row)] = static_cast<int32_t>(sequence.num_tokens_ + row);
    slots[static_cast<size_t>(row)] = sequence.blocks_.slot(sequence.num_tokens_ + row);
  }
  metadata_.i32(query_start_loc_)[1] = static_cast<int32_t>(rows);
  metadata_.i32(seq_lens_)[0] = static_cast<int32_t>(sequence.num_tokens_ + rows);
  metadata_.i32(state_slots_)[0] = sequence.state_slot_;
  metadata_.i32(num_commit_)[0] = fault::active(Fault::kStateNotCommitted) ? 0 : sequence.num_commit_;
  const auto blocks = sequence.blocks_.blocks();
  if (!fault::active(Fault::kStaleBlockTable)) std::ranges::copy(blocks, metadata_.i32(block_table_).begin());
  metadata_.upload(stream_);
}

/// Picks after rows [first_row, first_row + num_rows) of the last pass -> picks().
void TargetRunner::pick(CommandList& cmd, int64_t first_row, int64_t num_rows) const {
  const Tensor hidden = model_.hidden().rows(first_row, num_rows);
  const Tensor picks = picks_.rows(0, num_rows);
  if (writes_logits()) {
    model_.logits(cmd, hidden, logits_.rows(0, num_rows));
    ops::argmax(cmd, logits_.rows(0, num_rows), picks);
  } else {
    model_.pick(cmd, hidden, picks);
  }
}

/// The host then reads them without asking the device for another copy.
void TargetRunner::read_back(CommandList& cmd) const { cmd.copy(outputs_.view(), read_back_.view()); }

std::span<const int32_t> TargetRunner::wait_for_outputs() {
  stream_.synchronize();
  return {reinterpret_cast<const int32_t*>(read_back_.view().buffer->host_data()), kOutputs};
}

void TargetRunner::prefill_chunk(TargetSequence& sequence, std::span<const int32_t> token_ids) {
  const auto rows = static_cast<int64_t>(token_ids.size());
  reserve(sequence, rows);
  std::ranges::copy(token_ids, metadata_.i32(input_ids_).begin());
  upload_metadata(sequence, rows);
  stream_.run([&](CommandList& cmd) {
    model_.forward(cmd,
                   {.input_ids = metadata_.tensor(input_ids_).rows(0, rows),
                    .view = step_view(rows),
                    .update = StateUpdate::kInPlace,
                    .precision = options_.prefill_precision},
                   caches_);
  });
  sequence.num_tokens_ += rows;
  sequence.num_commit_ = 0;
}

void TargetRunner::prefill(TargetSequence& sequence, std::span<const int32_t> token_ids, const ChunkFn& on_chunk) {
  if (token_ids.empty()) throw Error(ErrorCode::kInvalidArgument, "the prompt is empty, expected at least one token");
  for (int32_t id : token_ids) {
    if (id < 0 || id >= model_.config().vocab_size) {
      throw Error(ErrorCode::kInvalidArgument, {.what = "token id out of range",
                                                .expected = "0 .. " + std::to_string(model_.config().vocab_size - 1),
                                                .got = std::to_string(id)});
    }
  }
  int64_t rows = 0;
  for (size_t begin = 0; begin < token_ids.size(); begin += static_cast<size_t>(rows)) {
    rows = std::min(options_.prefill_chunk, static_cast<int64_t>(token_ids.size() - begin));
    const int64_t first = sequence.num_tokens_;
    prefill_chunk(sequence, token_ids.subspan(begin, static_cast<size_t>(rows)));
    if (on_chunk) on_chunk(first, rows);
  }
  stream_.run([&](CommandList& cmd) {
    pick(cmd, rows - 1, 1);
    read_back(cmd);
    if (rows == 1) return;
    for (const Tensor& tensor : {model_.hidden(), model_.residual()})
      cmd.copy(tensor.rows(rows - 1, 1).view(), tensor.rows(0, 1).view());
  });
}

void TargetRunner::record_decode(CommandList& cmd) const {
  model_.forward(cmd, {.input_ids = metadata_.tensor(input_ids_).rows(0, 1), .view = step_view(1)}, caches_);
  pick(cmd, 0, 1);
  read_back(cmd);
}

void TargetRunner::record_verify(CommandList& cmd, const Tensor& block_token_ids) const {
  const int64_t rows = block_token_ids.dim(0);
  const int64_t drafts = rows - 1;
  if (options_.override_drafts) {
    ops::override_tokens(cmd, metadata_.tensor(forced_).rows(0, drafts), block_token_ids.rows(1, drafts));
  }
  model_.forward(cmd, {.input_ids = block_token_ids, .view = step_view(rows), .update = StateUpdate::kRecord}, caches_);
  pick(cmd, 0, rows);
  ops::accept_greedy(cmd, block_token_ids.rows(1, drafts).reshape({1, drafts}), picks_.rows(0, rows).reshape({1, rows}),
                     num_accepted_);
  read_back(cmd);
}

const Program& TargetRunner::decode_program() {
  if (!decode_program_) decode_program_ = backend_.record("target step", [this](CommandList& cmd) { record_decode(cmd); });
  return decode_program_;
}

const Program& TargetRunner::verify_program(const Tensor& block_token_ids) {
  const std::tuple key{block_token_ids.dim(0), block_token_ids.address()};
  auto found = verify_programs_.find(key);
  if (found == verify_programs_.end()) {
    const auto record = [this, block_token_ids](CommandList& cmd) { record_verify(cmd, block_token_ids); };
    found = verify_programs_.emplace(key, backend_.record("verify, " + std::to_string(block_token_ids.dim(0)) + " rows", record))
                .first;
  }
  return found->second;
}

void TargetRunner::prepare(const Tensor& block_token_ids, int64_t num_drafts) {
  decode_program();
  if (num_drafts > 0) verify_program(block_token_ids.rows(0, 1 + num_drafts));
}

void TargetRunner::decode(TargetSequence& sequence, int32_t token_id) {
  reserve(sequence, 1);
  metadata_.i32(input_ids_)[0] = token_id;
  upload_metadata(sequence, 1);
  stream_.run(decode_program());
  sequence.num_tokens_ += 1;
  sequence.num_commit_ = 0;
}

void TargetRunner::verify(TargetSequence& sequence, const Tensor& block_token_ids) {
  const int64_t rows = block_token_ids.dim(0);
  if (rows < 2 || rows > kMaxVerifyRows) {
    throw Error(
        ErrorCode::kInvalidArgument,
        {.what = "rows of a verify step", .expected = "2 .. " + std::to_string(kMaxVerifyRows), .got = std::to_string(rows)});
  }
  reserve(sequence, rows);
  upload_metadata(sequence, rows);
  stream_.run(verify_program(block_token_ids));
}

VerifyResult TargetRunner::finish_verify(TargetSequence& sequence, int64_t num_rows, int64_t num_keep) {
  const std::span<const int32_t> read = wait_for_outputs();
  VerifyResult result{.target_token_ids = {read.begin(), read.begin() + num_rows}, .num_accepted = read[kMaxVerifyRows]};
  sequence.num_commit_ = num_keep > 0 ? static_cast<int32_t>(num_keep) : result.num_accepted + 1;
  sequence.num_tokens_ += sequence.num_commit_;
  return result;
}

std::vector<int32_t> TargetRunner::read_picks(int64_t num_rows) {
  const std::span<const int32_t> read = wait_for_outputs();
  return {read.begin(), read.begin() + num_rows};
}

}  // namespace foretoken
