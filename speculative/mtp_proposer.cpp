#include "speculative/mtp_proposer.h"

#include <algorithm>
#include <string>

#include "core/error.h"
#include "core/fault.h"
#include "models/kv_scales.h"

namespace foretoken {
namespace {

PagedKvCacheConfig cache_config(const ModelConfig& config, const MtpProposerOptions& options) {
  const auto blocks_per_seq =
      static_cast<int32_t>((options.max_seq_len + options.max_drafts + options.block_size - 1) / options.block_size);
  return {.num_layers = 1,
          .num_key_value_heads = config.num_key_value_heads,
          .head_dim = config.head_dim,
          .dtype = options.cache_dtype,
          .block_size = options.block_size,
          .num_blocks = blocks_per_seq * options.max_sequences,
          .max_blocks_per_seq = blocks_per_seq};
}

DraftLimits draft_limits(const ModelConfig& config, const MtpProposerOptions& options) {
  return {.max_sequences = batch_bucket(std::min<int64_t>(options.max_sequences, kMaxBatch)),
          .max_drafts = options.max_drafts,
          .max_blocks_per_seq = cache_config(config, options).max_blocks_per_seq,
          .max_seq_len = options.max_seq_len};
}

MtpHeadOptions head_options(const MtpProposerOptions& options, const DraftLimits& limits) {
  return {.max_rows = std::max(options.max_append_rows, limits.max_rows()),
          .max_drafting_rows = limits.max_sequences,
          .max_rope_rows = std::max(options.max_append_rows, limits.max_rows_of_passes()),
          .max_seq_len = options.max_seq_len,
          .cache_dtype = options.cache_dtype,
          .activation_dtype = options.activation_dtype,
          .chain = options.chain,
          .token_map = options.token_map,
          .writes_logits = options.sampler != nullptr};
}

[[noreturn]] void fail(const std::string& what, const std::string& expected, int64_t got) {
  throw Error(ErrorCode::kInvalidArgument,
              {.what = what, .where = "mtp proposer", .expected = expected, .got = std::to_string(got)});
}

}  // namespace

/// Rows of one sequence.
struct MtpProposer::State final : ProposerState {
  State(const MtpProposer& proposer, BlockTable table) : owner(&proposer), blocks(std::move(table)) {}

  const MtpProposer* owner;
  BlockTable blocks;
  int64_t num_kept = 0;        // rows but those of the last propose's chained passes, which follow them
  int64_t next_key = 0;        // of the row that is taken in next
  int64_t last_key = -1;       // of the newest row
  int64_t num_drafted = 0;     // by the last propose
  bool has_exact_rows = true;  // key k in slot k, from the target's hidden state, for all keys before next_key

  [[nodiscard]] int64_t num_rows() const { return num_kept + std::max<int64_t>(num_drafted - 1, 0); }
  /// `num_rows` more were taken in, at `first_position`, the first with key `first_key`, and drafts made after them.
  void take_in(int64_t first_position, int64_t first_key, int64_t num_new_rows, int64_t num_drafts) {
    num_kept = first_position + num_new_rows;
    next_key = first_key + num_new_rows;
    num_drafted = num_drafts;
    last_key = next_key - 1 + std::max<int64_t>(num_drafts - 1, 0);
  }
};

MtpProposer::MtpProposer(GpuBackend& backend, const ModelConfig& config, const MtpWeights& weights, const Tensor& embed_tokens,
                         const LinearWeight& lm_head, const MtpProposerOptions& options, MetadataBuffer& round)
    : backend_(backend),
      options_(options),
      limits_(draft_limits(config, options)),
      head_(backend, config, weights, embed_tokens, lm_head, head_options(options, limits_)),
      cache_(backend, cache_config(config, options)),
      metadata_(backend, round, limits_) {
  ops::require_any<SelectTokens>(backend, "mtp proposer");
  check_confidence_stop();
  if (options.cache_dtype == DType::kE4M3) {
    const std::unique_ptr<Stream> stream = backend.create_stream();
    cache_.set_scales(*stream, kv_scales(backend, *stream, std::span(&weights.layer, 1)));
    stream->synchronize();
  }
  if (options.sampler != nullptr && lm_head.out_features() != options.sampler->options().vocab_size) {
    fail("tokens of the LM head that sampled drafts are drawn with", std::to_string(options.sampler->options().vocab_size),
         lm_head.out_features());
  }
  if (options.sampler != nullptr && options.sampler->options().max_drafts < options.max_drafts) {
    fail("drafts of the sampler", "at least " + std::to_string(options.max_drafts), options.sampler->options().max_drafts);
  }
  declare_append_metadata(backend);
  allocate_outputs(backend);
  binding_ = {.config = config,
              .weights = weights,
              .embed_tokens = embed_tokens,
              .lm_head = lm_head,
              .token_map = options.token_map,
              .kv = cache_.layer(0),
              .activation_dtype = options.activation_dtype,
              .chain = options.chain,
              .limits = limits_,
              .metadata = &metadata_,
              .draft_token_ids = draft_token_ids_,
              .logprobs = log_probabilities(),
              .unmodelled = {}};
  if (options.confidence_stop) binding_.unmodelled.emplace_back("chains that end with an unsure draft");
}

void MtpProposer::check_confidence_stop() const {
  if (!options_.confidence_stop) return;
  const double stop = *options_.confidence_stop;
  if (!(stop > 0.0 && stop < 1.0)) {
    throw Error(ErrorCode::kInvalidArgument, {.what = "probability of an unsure draft",
                                              .where = "mtp proposer",
                                              .expected = "more than 0 and less than 1",
                                              .got = std::to_string(stop)});
  }
  if (head_.fused_draft()) return;
  throw Error(ErrorCode::kUnsupported, "chains cannot end with an unsure draft, whose log-probability needs a fused LM head: " +
                                           head_.fused_draft().reason());
}

void MtpProposer::declare_append_metadata(GpuBackend& backend) {
  append_token_ids_ = append_metadata_.add(DType::kI32, {options_.max_append_rows});
  append_positions_ = append_metadata_.add(DType::kI32, {options_.max_append_rows});
  append_slot_mapping_ = append_metadata_.add(DType::kI64, {options_.max_append_rows});
  append_metadata_.allocate(backend);
}

void MtpProposer::allocate_outputs(GpuBackend& backend) {
  const Shape drafts{options_.max_drafts, limits_.max_sequences};
  const Shape blocks{limits_.max_sequences, 1 + options_.max_drafts};
  const auto bytes = [](const Shape& shape) {  // I32 and F32 alike
    return (dtype_bytes(DType::kI32, static_cast<size_t>(shape.num_elements())) + 255) / 256 * 256;
  };
  outputs_ = backend.allocate(2 * bytes(drafts) + bytes(blocks));
  draft_token_ids_ = outputs_.tensor(DType::kI32, drafts);
  logprobs_ = outputs_.tensor(DType::kF32, drafts, bytes(drafts));
  block_token_ids_ = outputs_.tensor(DType::kI32, blocks, 2 * bytes(drafts));
}

const MtpProposer::State& MtpProposer::typed(const ProposerState& state) const {
  const auto* own = dynamic_cast<const State*>(&state);
  if (own == nullptr || own->owner != this)
    throw Error(ErrorCode::kInvalidArgument, "the state was made by another proposer, expected one of this mtp proposer");
  return *own;
}

MtpProposer::State& MtpProposer::typed(ProposerState& state) const { return const_cast<State&>(typed(std::as_const(state))); }

std::unique_ptr<ProposerState> MtpProposer::alloc_state(int64_t budget_tokens) {
  auto state = std::make_unique<State>(*this, cache_.create_table());
  if (!state->blocks.reserve(budget_tokens)) {
    throw Error(ErrorCode::kOutOfMemory,
                {.what = "no room for another sequence",
                 .where = "drafter cache",
                 .expected = std::to_string(budget_tokens) + " positions",
                 .got = std::to_string(cache_.pool().num_free()) + " free blocks of " + std::to_string(options_.block_size)});
  }
  return state;
}

void MtpProposer::reserve(State& state, int64_t num_rows) const {
  if (!state.blocks.reserve(num_rows)) throw Error(ErrorCode::kOutOfMemory, "the drafter's cache has no free block");
}

void MtpProposer::append_rows(Stream& stream, std::span<const int32_t> next_token_ids, const Tensor& hidden,
                              LinearPrecision precision, ProposerState& state) {
  State& own = typed(state);
  const auto rows = static_cast<int64_t>(next_token_ids.size());
  if (rows == 0) return;
  if (rows > options_.max_append_rows || hidden.dim(0) != rows) {
    fail("rows to append", "at most " + std::to_string(options_.max_append_rows) + " with as many hidden states", rows);
  }
  reserve(own, own.num_kept + rows);
  std::ranges::copy(next_token_ids, append_metadata_.i32(append_token_ids_).begin());
  const auto positions = append_metadata_.i32(append_positions_);
  const auto slots = append_metadata_.i64(append_slot_mapping_);
  for (int64_t row = 0; row < rows; ++row) {
    positions[static_cast<size_t>(row)] = static_cast<int32_t>(own.next_key + row + 1);
    slots[static_cast<size_t>(row)] = own.blocks.slot(own.num_kept + row);
  }
  append_metadata_.upload(stream);

  MtpPass pass{.next_token_ids = append_metadata_.tensor(append_token_ids_).rows(0, rows),
               .hidden = hidden,
               .cos_sin = {},
               .view = {},
               .precision = precision};
  pass.view.positions = append_metadata_.tensor(append_positions_).rows(0, rows);
  pass.view.slot_mapping = append_metadata_.tensor(append_slot_mapping_).rows(0, rows);
  stream.run([&](CommandList& cmd) {
    pass.cos_sin = head_.rope_angles(cmd, pass.view.positions);
    head_.write_rows(cmd, pass, cache_.layer(0));
  });
  own.take_in(own.num_kept, own.next_key, rows, 0);
}

void MtpProposer::check_part(const DraftPart& part, const Tensor& hidden) const {
  const auto rows = static_cast<int64_t>(part.next_token_ids.size());
  if (part.state == nullptr) throw Error(ErrorCode::kInvalidArgument, "mtp proposer: a part has no state");
  if (rows < 1 || rows > max_part_rows()) fail("rows to take in", "1 .. " + std::to_string(max_part_rows()), rows);
  if (part.num_drafts < 0 || part.num_drafts > options_.max_drafts) {
    fail("drafts", "0 .. " + std::to_string(options_.max_drafts), part.num_drafts);
  }
  if (part.first_hidden_row < 0 || part.first_hidden_row > hidden.dim(0) - rows) {
    fail("first row of the hidden states",
         "0 .. " + std::to_string(hidden.dim(0) - rows) + ", for " + std::to_string(rows) + " rows", part.first_hidden_row);
  }
}

DraftRows MtpProposer::draft_rows(const DraftPart& part) const {
  State& own = typed(*part.state);
  const auto rows = static_cast<int64_t>(part.next_token_ids.size());
  const int64_t lost = fault::active(Fault::kDrafterRowLost) && rows > 1 ? 1 : 0;
  reserve(own, own.num_kept - lost + rows + std::max<int64_t>(part.num_drafts - 1, 0));
  return {.blocks = &own.blocks,
          .next_token_ids = part.next_token_ids,
          .first_hidden_row = part.first_hidden_row,
          .first_key = own.next_key - lost,
          .first_position = own.num_kept - lost,
          .num_drafts = part.num_drafts};
}

Tensor MtpProposer::propose(Stream& stream, std::span<const DraftPart> parts, const Tensor& hidden) {
  const auto num_parts = static_cast<int64_t>(parts.size());
  if (num_parts < 1 || num_parts > max_parts()) fail("sequences", "1 .. " + std::to_string(max_parts()), num_parts);
  std::vector<DraftRows> sequences;
  sequences.reserve(parts.size());
  int64_t num_rows = 0;
  int64_t num_drafts = 0;
  for (const DraftPart& part : parts) {
    check_part(part, hidden);
    sequences.push_back(draft_rows(part));
    if (std::ranges::count(sequences, sequences.back().blocks, &DraftRows::blocks) > 1) {
      throw Error(ErrorCode::kInvalidArgument, "mtp proposer: two parts have the same state");
    }
    num_rows += sequences.back().num_rows();
    num_drafts = std::max(num_drafts, part.num_drafts);
  }
  const DraftBucket bucket = DraftBucket::of(num_parts, num_rows, num_drafts);
  const bool is_drawn = stage_sampler(parts, sequences);
  metadata_.upload(stream, bucket, sequences);
  const std::vector<int64_t> drafts = run_batch(stream, parts, bucket, hidden, is_drawn);
  for (size_t i = 0; i < parts.size(); ++i) {
    const DraftRows& rows = sequences[i];
    typed(*parts[i].state).take_in(rows.first_position, rows.first_key, rows.num_rows(), drafts[i]);
  }
  return block_token_ids_;
}

bool MtpProposer::stage_sampler(std::span<const DraftPart> parts, std::span<const DraftRows> sequences) {
  Sampler* sampler = options_.sampler;
  const auto is_drawn = [&](const DraftPart& part) { return sampler->draws_drafts(part.sampler_slot); };
  if (sampler == nullptr || std::ranges::none_of(parts, is_drawn)) return false;
  std::vector<SamplerPart> drawn;
  for (size_t i = 0; i < parts.size(); ++i) {
    // The newest token sits one position after the pair key of its row.
    drawn.push_back({.slot = parts[i].sampler_slot, .first_position = sequences[i].first_key + sequences[i].num_rows()});
  }
  sampler->stage_drafts(drawn);
  return true;
}

Tensor MtpProposer::log_probabilities() const {
  const bool is_measured = options_.measure_log_probabilities || options_.confidence_stop;
  if (!is_measured || !head_.fused_draft()) return {};
  return logprobs_;
}

int64_t MtpProposer::after_verify(int64_t num_accepted, ProposerState& state) {
  State& own = typed(state);
  if (num_accepted < 0 || num_accepted > own.num_drafted) {
    fail("accepted drafts", "0 .. " + std::to_string(own.num_drafted), num_accepted);
  }
  if (own.num_drafted == 0) return 0;
  const RowsAfterVerify rows = rows_after_verify(options_.rows, own.num_drafted, num_accepted);
  const int64_t num_exact = own.num_kept;
  own.num_kept = own.num_rows() - rows.num_dropped;
  own.last_key -= rows.num_dropped;
  own.next_key += rows.num_left_out;
  own.num_drafted = 0;
  own.has_exact_rows &= own.num_kept == num_exact && rows.num_left_out == 0;
  return rows.num_left_out;
}

int64_t MtpProposer::num_rows(const ProposerState& state) const { return typed(state).num_rows(); }
int64_t MtpProposer::num_drafted(const ProposerState& state) const { return typed(state).num_drafted; }
int64_t MtpProposer::first_missing_key(const ProposerState& state) const { return typed(state).next_key; }

std::optional<int64_t> MtpProposer::last_pair_key(const ProposerState& state) const {
  const State& own = typed(state);
  return own.num_rows() == 0 ? std::nullopt : std::optional(own.last_key);
}

void MtpProposer::skip_to(int64_t first_key, ProposerState& state) {
  State& own = typed(state);
  if (own.num_drafted > 0)
    throw Error(ErrorCode::kInvalidState, "drafter rows cannot be left out before their drafts are verified");
  if (first_key < own.next_key) fail("pair key to skip to", "at least " + std::to_string(own.next_key), first_key);
  own.next_key = first_key;
  own.has_exact_rows &= own.num_kept == first_key;
}

std::span<const int32_t> MtpProposer::kv_blocks(const ProposerState& state) const {
  const State& own = typed(state);
  return own.has_exact_rows ? own.blocks.blocks() : std::span<const int32_t>();
}

DrafterKv MtpProposer::take_kv(ProposerState& state) {
  State& own = typed(state);
  DrafterKv kv{.blocks = std::move(own.blocks), .num_rows = own.num_kept, .num_keys = own.next_key};
  own.blocks = cache_.create_table();
  own.take_in(0, 0, 0, 0);
  own.has_exact_rows = true;
  return kv;
}

/// Keys ascend from row to row, so as many rows go as keys do: all that stay have keys below num_keys.
void MtpProposer::install_kv(DrafterKv& kv, int64_t num_keys, ProposerState& state) {
  State& own = typed(state);
  if (own.num_rows() != 0) throw Error(ErrorCode::kInvalidState, "drafter rows can be installed in an empty state only");
  const int64_t held_keys = kv.first_missing_key();
  if (num_keys < 0 || num_keys > held_keys) fail("pair keys to install", "0 .. " + std::to_string(held_keys), num_keys);
  own.blocks = std::move(kv.blocks);
  own.take_in(0, num_keys, 0, 0);
  own.num_kept = std::max<int64_t>(kv.num_rows - (held_keys - num_keys), 0);
  own.has_exact_rows = own.num_kept == num_keys;
  kv.num_rows = 0;
  kv.num_keys = 0;
}

}  // namespace foretoken
