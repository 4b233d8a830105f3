#include "speculative/sampler.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "backends/ops.h"
#include "core/error.h"
#include "speculative/batch_bucket.h"

namespace foretoken {
namespace {

/// Tokens that are counted in one launch.
constexpr int64_t kMaxCommitted = 1024;

[[noreturn]] void refuse(const std::string& what, const std::string& expected, int64_t got) {
  throw Error(ErrorCode::kInvalidArgument, {.what = what, .where = "sampler", .expected = expected, .got = std::to_string(got)});
}

void check_at_most(const std::string& what, int64_t value, int64_t limit) {
  if (value < 0 || value > limit) refuse(what, "at most " + std::to_string(limit), value);
}

/// Packed rows of a table on the device.
template <class Value>
void upload_row(Stream& stream, const Tensor& table, int64_t row, const std::vector<Value>& values) {
  stream.upload(std::as_bytes(std::span(values)), table.rows(row, 1).view());
}

void check_options(const SamplerOptions& options) {
  if (options.vocab_size < 1) refuse("tokens of the vocabulary", "1 or more", options.vocab_size);
  check_at_most("tokens of the vocabulary", options.vocab_size, kMaxSampledVocab);
  check_at_most("drafts of a round", options.max_drafts, kMaxVerifiedDrafts);
  check_draft_candidates("sampler", options.draft_candidates);
}

int64_t num_words(int64_t vocab_size) { return (vocab_size + 31) / 32; }

}  // namespace

Sampler::Sampler(GpuBackend& backend, MetadataBuffer& round, const SamplerOptions& options)
    : backend_(backend), round_(round), options_(options), num_parts_(batch_bucket(options.max_sequences)) {
  ops::require_any<ProcessLogits, CountTokens, SampleTokens, SampleDrafts, AcceptSampled>(backend, "sampler");
  check_options(options);
  slots_.resize(static_cast<size_t>(options.max_sequences));
  declare_metadata();
  allocate_tables();
  clear_drafts();
}

void Sampler::declare_metadata() {
  const int64_t rows = options_.max_rows;
  const int64_t drafts = std::max<int64_t>(options_.max_drafts, 1);
  row_slots_ = round_.add(DType::kI32, {rows});
  positions_ = round_.add(DType::kI32, {rows});
  history_ = round_.add(DType::kI32, {rows, 2});
  mask_rows_ = round_.add(DType::kI32, {rows});
  block_rows_ = round_.add(DType::kI32, {num_parts_});
  draft_slots_ = round_.add(DType::kI32, {num_parts_});
  draft_positions_ = round_.add(DType::kI32, {drafts, num_parts_});
  draft_history_ = round_.add(DType::kI32, {drafts, num_parts_, 2});
  committed_slots_ = committed_.add(DType::kI32, {kMaxCommitted});
  committed_tokens_ = committed_.add(DType::kI32, {kMaxCommitted});
  committed_.allocate(backend_);
  const auto history = round_.i32(draft_history_);
  for (size_t i = 0; i < history.size() / 2; ++i) {  // before draft j of part b lie drafts 0 .. j - 1 of b
    history[2 * i] = static_cast<int32_t>(i % static_cast<size_t>(num_parts_));
    history[2 * i + 1] = static_cast<int32_t>(i / static_cast<size_t>(num_parts_));
  }
}

void Sampler::allocate_tables() {
  const int64_t S = options_.max_sequences, V = options_.vocab_size;
  const int64_t biases = std::max<int64_t>(options_.max_logit_biases, 1), stops = std::max<int64_t>(options_.max_stop_ids, 1);
  const Shape drafted{std::max<int64_t>(options_.max_drafts, 1), num_parts_, options_.draft_candidates};
  struct Table {
    Tensor* tensor;
    DType dtype;
    Shape shape;
  };
  std::vector<Table> tables = {{&reals_, DType::kF32, {S, kNumSamplingReals}},
                               {&integers_, DType::kI32, {S, kNumSamplingIntegers}},
                               {&seeds_, DType::kI64, {S}},
                               {&bias_ids_, DType::kI32, {S, biases}},
                               {&bias_values_, DType::kF32, {S, biases}},
                               {&stop_ids_, DType::kI32, {S, stops}},
                               {&counts_, DType::kI32, {S, V}},
                               {&weight_sums_, DType::kI64, {options_.max_rows}},
                               {&draft_ids_, DType::kI32, drafted},
                               {&draft_weights_, DType::kI64, drafted}};
  if (options_.max_mask_rows > 0) tables.push_back({&masks_, DType::kI32, {options_.max_mask_rows, num_words(V)}});
  std::vector<size_t> offsets;
  size_t bytes = 0;
  for (const Table& table : tables) {
    offsets.push_back(bytes);
    bytes += (dtype_bytes(table.dtype, static_cast<size_t>(table.shape.num_elements())) + 255) / 256 * 256;
  }
  memory_ = backend_.allocate(bytes);
  for (size_t i = 0; i < tables.size(); ++i) *tables[i].tensor = memory_.tensor(tables[i].dtype, tables[i].shape, offsets[i]);
}

/// No draft is drawn yet.
void Sampler::clear_drafts() {
  const std::unique_ptr<Stream> stream = backend_.create_stream();
  stream->run([this](CommandList& cmd) { cmd.fill(draft_ids_.view(), UINT32_MAX); });
  stream->synchronize();
}

bool Sampler::is_taken(int32_t slot) const {
  return slot >= 0 && slot < options_.max_sequences && slots_[static_cast<size_t>(slot)].has_value();
}

void Sampler::check_taken(int32_t slot) const {
  if (!is_taken(slot)) throw Error(ErrorCode::kInvalidState, "sampler: no sequence has slot " + std::to_string(slot));
}

const Sampler::Slot& Sampler::taken(int32_t slot) const {
  check_taken(slot);
  return *slots_[static_cast<size_t>(slot)];
}

Sampler::Slot& Sampler::taken(int32_t slot) { return const_cast<Slot&>(std::as_const(*this).taken(slot)); }

const SamplingParams& Sampler::params(int32_t slot) const { return taken(slot).params; }

void Sampler::check(const SamplingParams& params) const {
  validate(params, options_.vocab_size);
  check_at_most("entries of logit_bias", static_cast<int64_t>(params.logit_bias.size()), options_.max_logit_biases);
  if (params.min_tokens > 0) {
    check_at_most("stop ids with min_tokens", static_cast<int64_t>(params.stop_token_ids.size()), options_.max_stop_ids);
  }
  if (params.token_mask && !masks_) throw Error(ErrorCode::kInvalidArgument, "sampler: it was made without room for token masks");
}

void Sampler::join(Stream& stream, int32_t slot, const SamplingParams& params, std::span<const int32_t> prompt,
                   std::span<const int32_t> output) {
  check_at_most("slot of a sequence", slot, options_.max_sequences - 1);
  if (is_taken(slot)) throw Error(ErrorCode::kInvalidState, "sampler: slot " + std::to_string(slot) + " is taken");
  check(params);
  for (const auto ids : {prompt, output}) {
    for (const int32_t id : ids) {
      if (id < 0 || id >= options_.vocab_size) refuse("token id", "below " + std::to_string(options_.vocab_size), id);
    }
  }
  upload_slot(stream, slot, params, static_cast<int64_t>(prompt.size()));
  if (has_penalties(params)) upload_counts(stream, slot, prompt, output);
  Slot& own = slots_[static_cast<size_t>(slot)].emplace();
  own.params = params;
  own.is_counted = has_penalties(params);
  if (params.token_mask) own.output.assign(output.begin(), output.end());
}

void Sampler::leave(int32_t slot) {
  check_taken(slot);
  slots_[static_cast<size_t>(slot)].reset();
}

void Sampler::commit(int32_t slot, std::span<const int32_t> token_ids) {
  Slot& own = taken(slot);
  if (own.is_counted) own.uncounted.insert(own.uncounted.end(), token_ids.begin(), token_ids.end());
  if (own.params.token_mask) own.output.insert(own.output.end(), token_ids.begin(), token_ids.end());
}

void Sampler::upload_slot(Stream& stream, int32_t slot, const SamplingParams& params, int64_t num_prompt) {
  const bool is_sampled = params.temperature > 0.0F;
  std::vector<float> reals(kNumSamplingReals);
  reals[kTemperature] = params.temperature;
  reals[kTopP] = params.top_p;
  reals[kMinP] = params.min_p;
  reals[kRepetitionPenalty] = params.repetition_penalty;
  reals[kPresencePenalty] = params.presence_penalty;
  reals[kFrequencyPenalty] = params.frequency_penalty;
  std::vector<int32_t> integers(kNumSamplingIntegers);
  integers[kTopK] = params.top_k;
  // The row at position p picks token p + 1 - num_prompt of the output.
  integers[kFirstStopRow] = static_cast<int32_t>(std::min<int64_t>(num_prompt - 1 + params.min_tokens, INT32_MAX));
  integers[kDraftSampling] = static_cast<int32_t>(is_sampled ? params.draft_sampling : DraftSampling::kGreedy);
  std::vector<int32_t> bias_ids(static_cast<size_t>(bias_ids_.dim(1)), -1);
  std::vector<float> bias_values(bias_ids.size());
  size_t i = 0;
  for (const auto& [id, bias] : params.logit_bias) {
    bias_ids[i] = id;
    bias_values[i++] = bias;
  }
  std::vector<int32_t> stops(static_cast<size_t>(stop_ids_.dim(1)), -1);
  if (params.min_tokens > 0) std::ranges::copy(params.stop_token_ids, stops.begin());
  upload_row(stream, reals_, slot, reals);
  upload_row(stream, integers_, slot, integers);
  upload_row(stream, seeds_, slot, std::vector{params.seed});
  upload_row(stream, bias_ids_, slot, bias_ids);
  upload_row(stream, bias_values_, slot, bias_values);
  upload_row(stream, stop_ids_, slot, stops);
}

void Sampler::upload_counts(Stream& stream, int32_t slot, std::span<const int32_t> prompt, std::span<const int32_t> output) {
  std::vector<int32_t> counts(static_cast<size_t>(options_.vocab_size));
  for (const int32_t id : prompt) counts[static_cast<size_t>(id)] = kInPrompt;
  for (const int32_t id : output) ++counts[static_cast<size_t>(id)];
  upload_row(stream, counts_, slot, counts);
}

void Sampler::count_committed(Stream& stream) {
  std::vector<int32_t> slots;
  std::vector<int32_t> tokens;
  for (size_t slot = 0; slot < slots_.size(); ++slot) {
    if (!slots_[slot]) continue;
    std::vector<int32_t>& uncounted = slots_[slot]->uncounted;
    tokens.insert(tokens.end(), uncounted.begin(), uncounted.end());
    slots.resize(tokens.size(), static_cast<int32_t>(slot));
    uncounted.clear();
  }
  for (size_t first = 0; first < tokens.size(); first += kMaxCommitted) {
    const size_t count = std::min<size_t>(kMaxCommitted, tokens.size() - first);
    const auto staged_slots = committed_.i32(committed_slots_);
    std::ranges::fill(staged_slots, -1);
    std::ranges::copy(std::span(slots).subspan(first, count), staged_slots.begin());
    std::ranges::copy(std::span(tokens).subspan(first, count), committed_.i32(committed_tokens_).begin());
    committed_.upload(stream);
    stream.run([&](CommandList& cmd) {
      ops::dispatch(cmd, CountTokens{.slots = committed_.tensor(committed_slots_),
                                     .token_ids = committed_.tensor(committed_tokens_),
                                     .counts = counts_});
    });
  }
}

void Sampler::stage(Stream& stream, std::span<const SamplerPart> parts) {
  check_at_most("sequences of a step", static_cast<int64_t>(parts.size()), num_parts_);
  const auto max_rows = static_cast<size_t>(options_.max_rows);
  std::vector<int32_t> slots(max_rows, -1);
  std::vector<int32_t> positions(max_rows);
  std::vector<int32_t> history(2 * max_rows);
  std::vector<int32_t> block_rows(static_cast<size_t>(num_parts_), -1);
  int64_t row = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const SamplerPart& part = parts[i];
    if (part.slot >= 0) check_taken(part.slot);
    check_at_most("rows of a step", row + part.num_rows, options_.max_rows);
    block_rows[i] = static_cast<int32_t>(part.block_row);
    const int64_t first = row;
    for (int64_t j = 0; j < part.num_rows; ++j, ++row) {
      const auto at = static_cast<size_t>(row);
      slots[at] = part.slot;
      positions[at] = static_cast<int32_t>(part.first_position + j);
      history[2 * at] = static_cast<int32_t>(std::min(first + 1, row));  // the drafts up to the row's own
      history[2 * at + 1] = static_cast<int32_t>(j);
    }
  }
  round_.update(row_slots_, 0, slots);
  round_.update(positions_, 0, positions);
  round_.update(history_, 0, history);
  round_.update(block_rows_, 0, block_rows);
  round_.update(mask_rows_, 0, std::vector<int32_t>(max_rows, -1));
  num_mask_rows_ = 0;
  count_committed(stream);
  row = 0;
  for (const SamplerPart& part : parts) {
    if (part.num_rows == 1) stage_part_masks(stream, part, row, {});
    row += part.num_rows;
  }
}

bool Sampler::needs_draft_ids(std::span<const SamplerPart> parts) const {
  return std::ranges::any_of(parts, [this](const SamplerPart& part) {
    return part.num_rows > 1 && part.slot >= 0 && taken(part.slot).params.token_mask;
  });
}

void Sampler::stage_masks(Stream& stream, std::span<const SamplerPart> parts, std::span<const std::vector<int32_t>> drafts) {
  int64_t row = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].num_rows > 1) stage_part_masks(stream, parts[i], row, drafts[i]);
    row += parts[i].num_rows;
  }
}

void Sampler::stage_part_masks(Stream& stream, const SamplerPart& part, int64_t first_row, std::span<const int32_t> drafts) {
  if (part.slot < 0 || !taken(part.slot).params.token_mask) return;
  const SamplingParams& params = taken(part.slot).params;
  std::vector<int32_t> output = taken(part.slot).output;
  std::vector<uint32_t> words(static_cast<size_t>(num_words(options_.vocab_size)));
  const auto is_allowed = [&](int32_t id) { return (words[static_cast<size_t>(id) / 32] >> (id % 32) & 1U) != 0; };
  for (int64_t j = 0; j < part.num_rows; ++j) {
    if (j > 0) output.push_back(drafts[static_cast<size_t>(j - 1)]);
    std::ranges::fill(words, 0U);
    const bool is_limited = params.token_mask(output, words);
    if (is_limited) upload_mask(stream, params, words, first_row + j);
    if (j + 1 == part.num_rows) return;
    const int32_t next = drafts[static_cast<size_t>(j)];
    // Rows after a draft that is not allowed are never picked from, and after a stop id there is no text.
    if (next < 0 || next >= options_.vocab_size || (is_limited && !is_allowed(next))) return;
    if (std::ranges::find(params.stop_token_ids, next) != params.stop_token_ids.end()) return;
  }
}

void Sampler::upload_mask(Stream& stream, const SamplingParams& params, std::vector<uint32_t>& words, int64_t row) {
  if (const auto spare = static_cast<uint32_t>(options_.vocab_size % 32); spare != 0) words.back() &= (1U << spare) - 1U;
  if (std::ranges::all_of(words, [](uint32_t word) { return word == 0; })) {
    if (params.stop_token_ids.empty()) {
      throw Error(ErrorCode::kInvalidArgument, "sampler: a token mask allows nothing, and there is no stop id");
    }
    for (const int32_t id : params.stop_token_ids) words[static_cast<size_t>(id) / 32] |= 1U << (id % 32);
  }
  check_at_most("rows with a token mask", num_mask_rows_ + 1, options_.max_mask_rows);
  upload_row(stream, masks_, num_mask_rows_, words);
  const auto mask_row = static_cast<int32_t>(num_mask_rows_++);
  round_.update(mask_rows_, static_cast<size_t>(row), {&mask_row, 1});
}

bool Sampler::draws_drafts(int32_t slot) const {
  if (slot < 0) return false;
  const SamplingParams& own = taken(slot).params;
  return own.temperature > 0.0F && own.draft_sampling != DraftSampling::kGreedy;
}

void Sampler::stage_drafts(std::span<const SamplerPart> parts) {
  check_at_most("sequences to draft for", static_cast<int64_t>(parts.size()), num_parts_);
  const auto width = static_cast<size_t>(num_parts_);
  std::vector<int32_t> slots(width, -1);
  std::vector<int32_t> positions(static_cast<size_t>(draft_positions_.shape.num_elements()));
  for (size_t i = 0; i < parts.size(); ++i) {
    if (draws_drafts(parts[i].slot)) slots[i] = parts[i].slot;
    for (size_t at = i; at < positions.size(); at += width) {
      positions[at] = static_cast<int32_t>(parts[i].first_position) + static_cast<int32_t>(at / width);
    }
  }
  round_.update(draft_slots_, 0, slots);
  round_.update(draft_positions_, 0, positions);
}

}  // namespace foretoken
