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

/// Rows of all passes of a Program, chained ones included.
int64_t max_pass_rows(const MtpProposerOptions& options) { return std::max(options.max_append_rows, 2 * options.max_drafts); }

MtpHeadOptions head_options(const MtpProposerOptions& options) {
  return {.max_rows = max_pass_rows(options),
          .max_seq_len = options.max_seq_len,
          .cache_dtype = options.cache_dtype,
          .activation_dtype = options.activation_dtype,
          .chain = options.chain};
}

[[noreturn]] void fail(const std::string& what, const std::string& expected, int64_t got) {
  throw Error(ErrorCode::kInvalidArgument,
              {.what = what, .where = "mtp proposer", .expected = expected, .got = std::to_string(got)});
}

}  // namespace

/// Rows of one sequence. `num_exact` of them were built from target hidden states.
struct MtpProposer::State final : ProposerState {
  explicit State(BlockTable table) : blocks(std::move(table)) {}

  BlockTable blocks;
  int64_t num_rows = 0;
  int64_t num_exact = 0;
  int64_t num_drafted = 0;  // by the last propose
};

MtpProposer::MtpProposer(GpuBackend& backend, const ModelConfig& config, const MtpWeights& weights, const Tensor& embed_tokens,
                         const LinearWeight& lm_head, const MtpProposerOptions& options)
    : backend_(backend),
      options_(options),
      head_(backend, config, weights, embed_tokens, lm_head, head_options(options)),
      cache_(backend, cache_config(config, options)) {
  if (options.cache_dtype == DType::kE4M3) {
    const std::unique_ptr<Stream> stream = backend.create_stream();
    cache_.set_scales(*stream, kv_scales(backend, *stream, std::span(&weights.layer, 1)));
    stream->synchronize();
  }
  declare_metadata(backend);
  const size_t ids_bytes = dtype_bytes(DType::kI32, static_cast<size_t>(1 + options.max_drafts));
  const size_t logprobs_offset = (ids_bytes + 255) / 256 * 256;
  outputs_ = backend.allocate(logprobs_offset + dtype_bytes(DType::kF32, static_cast<size_t>(options.max_drafts)));
  block_token_ids_ = outputs_.tensor(DType::kI32, {1 + options.max_drafts});
  logprobs_ = outputs_.tensor(DType::kF32, {options.max_drafts}, logprobs_offset);
}

void MtpProposer::declare_metadata(GpuBackend& backend) {
  const int64_t max_rows = max_pass_rows(options_);
  append_token_ids_ = metadata_.add(DType::kI32, {options_.max_append_rows});
  positions_ = metadata_.add(DType::kI32, {max_rows});
  slot_mapping_ = metadata_.add(DType::kI64, {max_rows});
  seq_lens_ = metadata_.add(DType::kI32, {options_.max_drafts});
  query_start_loc_ = metadata_.add(DType::kI32, {2});
  block_table_ = metadata_.add(DType::kI32, {1, cache_.config().max_blocks_per_seq});
  metadata_.allocate(backend);
  metadata_.i32(query_start_loc_)[1] = 1;
}

const MtpProposer::State& MtpProposer::typed(const ProposerState& state) {
  const auto* own = dynamic_cast<const State*>(&state);
  if (own == nullptr)
    throw Error(ErrorCode::kInvalidArgument, "the state was made by another kind of proposer, expected one of mtp");
  return *own;
}

MtpProposer::State& MtpProposer::typed(ProposerState& state) { return const_cast<State&>(typed(std::as_const(state))); }

std::unique_ptr<ProposerState> MtpProposer::alloc_state(int64_t budget_tokens) {
  auto state = std::make_unique<State>(cache_.create_table());
  if (!state->blocks.reserve(budget_tokens)) {
    throw Error(ErrorCode::kOutOfMemory,
                {.what = "no room for another sequence",
                 .where = "drafter cache",
                 .expected = std::to_string(budget_tokens) + " positions",
                 .got = std::to_string(cache_.pool().num_free()) + " free blocks of " + std::to_string(options_.block_size)});
  }
  return state;
}

void MtpProposer::reserve(State& state, int64_t num_rows) {
  if (!state.blocks.reserve(num_rows)) throw Error(ErrorCode::kOutOfMemory, "the drafter's cache has no free block");
}

/// Rows [first_key, first_key + num_rows) of the pass, chained rows included; pass i attends to the cache up to its own row.
void MtpProposer::upload_metadata(Stream& stream, const State& state, int64_t first_key, int64_t num_rows, int64_t num_passes) {
  const auto positions = metadata_.i32(positions_);
  const auto slots = metadata_.i64(slot_mapping_);
  for (int64_t row = 0; row < num_rows; ++row) {
    const int64_t key = first_key + row;
    positions[static_cast<size_t>(row)] = static_cast<int32_t>(key + 1);
    slots[static_cast<size_t>(row)] = state.blocks.slot(key);
  }
  const auto seq_lens = metadata_.i32(seq_lens_);
  for (int64_t pass = 0; pass < num_passes; ++pass) {
    seq_lens[static_cast<size_t>(pass)] = static_cast<int32_t>(first_key + num_rows - num_passes + pass + 1);
  }
  const auto blocks = state.blocks.blocks();
  std::ranges::copy(blocks, metadata_.i32(block_table_).begin());
  metadata_.upload(stream);
}

MtpPass MtpProposer::pass_view(int64_t first_row, int64_t num_rows, int64_t pass_idx) const {
  return {.next_token_ids = {},
          .hidden = {},
          .cos_sin = {},
          .view = {.positions = metadata_.tensor(positions_).rows(first_row, num_rows),
                   .slot_mapping = metadata_.tensor(slot_mapping_).rows(first_row, num_rows),
                   .query_start_loc = metadata_.tensor(query_start_loc_),
                   .seq_lens = metadata_.tensor(seq_lens_).rows(pass_idx, 1),
                   .block_table = metadata_.tensor(block_table_),
                   .state_slots = {},
                   .num_commit = {},
                   .max_seq_len = options_.max_seq_len},
          .precision = LinearPrecision::kExact};
}

void MtpProposer::append_rows(Stream& stream, std::span<const int32_t> next_token_ids, const Tensor& hidden,
                              LinearPrecision precision, ProposerState& state) {
  State& own = typed(state);
  const auto rows = static_cast<int64_t>(next_token_ids.size());
  if (rows == 0) return;
  if (rows > options_.max_append_rows || hidden.dim(0) != rows) {
    fail("rows to append", "at most " + std::to_string(options_.max_append_rows) + " with as many hidden states", rows);
  }
  reserve(own, own.num_exact + rows);
  std::ranges::copy(next_token_ids, metadata_.i32(append_token_ids_).begin());
  upload_metadata(stream, own, own.num_exact, rows, 0);

  MtpPass pass = pass_view(0, rows, 0);
  pass.next_token_ids = metadata_.tensor(append_token_ids_).rows(0, rows);
  pass.hidden = hidden;
  pass.precision = precision;
  stream.run([&](CommandList& cmd) {
    pass.cos_sin = head_.rope_angles(cmd, pass.view.positions);
    head_.write_rows(cmd, pass, cache_.layer(0));
  });
  own.num_exact += rows;
  own.num_rows = own.num_exact;
}

Tensor MtpProposer::propose(Stream& stream, const DraftRequest& request, ProposerState& state) {
  State& own = typed(state);
  const int64_t rows = request.next_token_ids.dim(0);
  const int64_t drafts = request.num_drafts;
  if (drafts < 1 || drafts > options_.max_drafts) fail("drafts", "1 .. " + std::to_string(options_.max_drafts), drafts);
  if (rows < 1 || rows > max_request_rows() || request.hidden.dim(0) != rows) {
    fail("rows to take in", "1 .. " + std::to_string(max_request_rows()) + " with as many hidden states", rows);
  }
  const int64_t first_key = fault::active(Fault::kDrafterRowLost) && rows > 1 ? own.num_exact - 1 : own.num_exact;
  reserve(own, first_key + rows + drafts - 1);
  upload_metadata(stream, own, first_key, rows + drafts - 1, drafts);
  stream.run(program(request));
  own.num_exact = first_key + rows;
  own.num_rows = own.num_exact + drafts - 1;
  own.num_drafted = drafts;
  return block_token_ids_.rows(0, 1 + drafts);
}

/// All passes: the first takes the request's rows in, each later one the token before it and the chained hidden state.
void MtpProposer::record_passes(CommandList& cmd, const DraftRequest& request) const {
  const int64_t rows = request.next_token_ids.dim(0);
  const PagedKvView kv = cache_.layer(0);
  cmd.copy(request.next_token_ids.rows(rows - 1, 1).view(), block_token_ids_.rows(0, 1).view());
  const Tensor angles = head_.rope_angles(cmd, metadata_.tensor(positions_).rows(0, rows + request.num_drafts - 1));
  Tensor chain;
  for (int64_t i = 0; i < request.num_drafts; ++i) {
    MtpPass pass = i == 0 ? pass_view(0, rows, 0) : pass_view(rows + i - 1, 1, i);
    pass.next_token_ids = i == 0 ? request.next_token_ids : block_token_ids_.rows(i, 1);
    pass.hidden = i == 0 ? request.hidden : chain;
    pass.cos_sin = i == 0 ? angles.rows(0, rows) : angles.rows(rows + i - 1, 1);
    const Tensor logprob = log_probabilities() ? logprobs_.rows(i, 1) : Tensor();
    chain = head_.draft(cmd, pass, kv, block_token_ids_.rows(i + 1, 1), logprob);
  }
}

const Program& MtpProposer::program(const DraftRequest& request) {
  const ProgramKey key{request.next_token_ids.dim(0), request.num_drafts, request.next_token_ids.address(),
                       request.hidden.address()};
  auto found = programs_.find(key);
  if (found == programs_.end()) {
    const std::string label =
        "mtp draft x" + std::to_string(request.num_drafts) + ", " + std::to_string(std::get<0>(key)) + " rows in";
    found =
        programs_.emplace(key, backend_.record(label, [this, request](CommandList& cmd) { record_passes(cmd, request); })).first;
  }
  return found->second;
}

void MtpProposer::prepare(const Tensor& next_token_ids, const Tensor& hidden, int64_t num_drafts) {
  for (int64_t rows = 1; rows <= num_drafts + 1; ++rows) {
    program({.next_token_ids = next_token_ids.rows(0, rows), .hidden = hidden.rows(0, rows), .num_drafts = num_drafts});
  }
}

Tensor MtpProposer::log_probabilities() const {
  return options_.measure_log_probabilities && head_.fused_draft() ? logprobs_ : Tensor();
}

void MtpProposer::after_verify(int64_t num_accepted, ProposerState& state) {
  State& own = typed(state);
  if (num_accepted < 0 || num_accepted > own.num_drafted) {
    fail("accepted drafts", "0 .. " + std::to_string(own.num_drafted), num_accepted);
  }
  own.num_rows = own.num_exact;
  own.num_drafted = 0;
}

int64_t MtpProposer::num_rows(const ProposerState& state) const { return typed(state).num_rows; }

std::optional<int64_t> MtpProposer::last_pair_key(const ProposerState& state) const {
  const int64_t rows = typed(state).num_rows;
  return rows == 0 ? std::nullopt : std::optional(rows - 1);
}

DrafterKv MtpProposer::take_kv(ProposerState& state) {
  State& own = typed(state);
  DrafterKv kv{.blocks = std::move(own.blocks), .num_rows = own.num_exact};
  own.blocks = cache_.create_table();
  own.num_rows = own.num_exact = own.num_drafted = 0;
  return kv;
}

void MtpProposer::install_kv(DrafterKv& kv, int64_t num_rows, ProposerState& state) {
  State& own = typed(state);
  if (own.num_rows != 0) throw Error(ErrorCode::kInvalidState, "drafter rows can be installed in an empty state only");
  if (num_rows < 0 || num_rows > kv.num_rows) fail("rows to install", "0 .. " + std::to_string(kv.num_rows), num_rows);
  own.blocks = std::move(kv.blocks);
  own.num_exact = own.num_rows = num_rows;
  kv.num_rows = 0;
}

}  // namespace foretoken
