#include "cache/prefix_cache.h"

#include <algorithm>
#include <string>
#include <vector>

#include "core/error.h"

namespace foretoken {
namespace {

PrefixMemory checked(PrefixMemory memory, const PrefixCacheOptions& options) {
  if (memory.target == nullptr || memory.states == nullptr) {
    throw Error(ErrorCode::kInvalidArgument, "a prefix cache needs the target's KV cache and recurrent states");
  }
  if (options.prefill_chunk < 1 || options.snapshot_spacing < 1 || options.snapshot_spacing % options.prefill_chunk != 0) {
    throw Error(ErrorCode::kInvalidArgument, {.what = "spacing of snapshots",
                                              .where = "prefix cache",
                                              .expected = "a multiple of " + std::to_string(options.prefill_chunk) + " tokens",
                                              .got = std::to_string(options.snapshot_spacing)});
  }
  if (options.max_snapshots < 0) {
    throw Error(
        ErrorCode::kInvalidArgument,
        {.what = "snapshots", .where = "prefix cache", .expected = "at least 0", .got = std::to_string(options.max_snapshots)});
  }
  const int32_t block_size = memory.target->config().block_size;
  if (memory.draft != nullptr && memory.draft->config().block_size != block_size) {
    throw Error(ErrorCode::kInvalidArgument, {.what = "positions of a drafter block",
                                              .where = "prefix cache",
                                              .expected = std::to_string(block_size) + ", as in the target's cache",
                                              .got = std::to_string(memory.draft->config().block_size)});
  }
  return memory;
}

/// As many snapshots as the budget holds; nothing when the model has no recurrent state or not one fits.
std::optional<StateSnapshots> make_snapshots(GpuBackend& backend, const PrefixMemory& memory, const PrefixCacheOptions& options) {
  if (memory.states->config().num_layers == 0) return std::nullopt;
  const size_t bytes = StateSnapshots::bytes_per_snapshot(memory.states->config(), memory.hidden_row_bytes);
  const size_t count = std::min(options.snapshot_bytes / bytes, static_cast<size_t>(options.max_snapshots));
  if (count == 0) return std::nullopt;
  return std::optional<StateSnapshots>(std::in_place, backend, *memory.states, memory.hidden_row_bytes,
                                       static_cast<int32_t>(count));
}

int64_t whole_blocks(int64_t rows, const PagedKvCache& cache) { return rows / cache.config().block_size; }

/// The first `rows` rows of a match -> an empty table.
void fill_table(Stream& stream, const PagedKvCache& cache, std::span<const BlockReference> blocks, int64_t rows,
                BlockTable& table) {
  const auto whole = static_cast<size_t>(whole_blocks(rows, cache));
  std::vector<int32_t> shared;
  for (const BlockReference& block : blocks.first(whole)) shared.push_back(block.block());
  table.share(shared);
  if (whole == blocks.size()) return;
  if (!table.reserve(rows)) {
    throw Error(ErrorCode::kOutOfMemory,
                {.what = "no block for the last positions of a cached prefix", .expected = "a free one", .got = "none"});
  }
  cache.copy_block(stream, blocks[whole].block(), table.blocks()[whole]);
}

void check_empty(const BlockTable& table) {
  if (table.blocks().empty()) return;
  throw Error(ErrorCode::kInvalidState, {.what = "a cached prefix goes into an empty block table",
                                         .got = std::to_string(table.blocks().size()) + " blocks"});
}

}  // namespace

PrefixCache::PrefixCache(GpuBackend& backend, const PrefixMemory& memory, const PrefixCacheOptions& options)
    : memory_(checked(memory, options)),
      options_(options),
      is_recurrent_(memory.states->config().num_layers > 0),
      snapshots_(make_snapshots(backend, memory, options)),
      index_({.target = &memory.target->pool(),
              .draft = memory.draft == nullptr ? nullptr : &memory.draft->pool(),
              .snapshots = snapshots_ ? &snapshots_->pool() : nullptr},
             {.block_size = memory.target->config().block_size,
              .grid = options.row_invariant_prefill ? 1 : options.prefill_chunk,
              .reuse_generated = options.reuse_generated}) {}

PrefixMatch PrefixCache::lookup(std::span<const int32_t> token_ids, bool needs_draft) {
  return is_enabled() ? index_.lookup(token_ids, needs_draft) : PrefixMatch{};
}

int64_t PrefixCache::num_shared_target_blocks(const PrefixMatch& match) const {
  return whole_blocks(match.num_tokens, *memory_.target);
}

int64_t PrefixCache::num_shared_draft_blocks(const PrefixMatch& match) const {
  return memory_.draft == nullptr ? 0 : whole_blocks(match.num_draft_rows, *memory_.draft);
}

void PrefixCache::resume(Stream& stream, const PrefixMatch& match, const ResumedSequence& into) {
  check_empty(*into.target);
  if (into.draft != nullptr) {
    check_empty(*into.draft);
    if (match.num_draft_rows == 0 && !match.needs_boundary_row) {
      throw Error(ErrorCode::kInvalidArgument, "a drafter can only resume a prefix that was looked up with drafter rows");
    }
  }
  try {
    fill_table(stream, *memory_.target, match.target_blocks, match.num_tokens, *into.target);
    if (into.draft != nullptr) fill_table(stream, *memory_.draft, match.draft_blocks, match.num_draft_rows, *into.draft);
    if (!match.snapshot) return;
    snapshots_->load(stream, match.snapshot.block(), into.state_slot);
    if (into.draft != nullptr) snapshots_->load_hidden(stream, match.snapshot.block(), into.hidden_row);
  } catch (...) {
    into.target->truncate(0);
    if (into.draft != nullptr) into.draft->truncate(0);
    throw;
  }
}

bool PrefixCache::wants_insert(int64_t position, int64_t num_prompt_tokens) const {
  if (!is_enabled() || position == 0 || position % options_.prefill_chunk != 0) return false;
  if (!is_recurrent_ || position % options_.snapshot_spacing == 0) return true;
  return position == (num_prompt_tokens - 1) / options_.prefill_chunk * options_.prefill_chunk;
}

int64_t PrefixCache::advance_grid(int64_t num_grid_tokens, int64_t first_position, int64_t num_rows) const {
  if (first_position != num_grid_tokens) return num_grid_tokens;
  const bool is_chunk = first_position % options_.prefill_chunk == 0 && num_rows == options_.prefill_chunk;
  return options_.row_invariant_prefill || is_chunk ? first_position + num_rows : num_grid_tokens;
}

bool PrefixCache::insert(Stream& stream, const PrefixSource& source, int32_t state_slot, const Tensor& hidden_row) {
  const bool is_generated = source.num_grid_tokens < static_cast<int64_t>(source.token_ids.size());
  if (!is_enabled() || (is_generated && !options_.reuse_generated)) return false;
  if (!is_recurrent_) {
    index_.insert(source);
    return true;
  }
  if (index_.contains(source)) return true;
  std::optional<BlockReference> snapshot = index_.allocate_snapshot();
  if (!snapshot) return false;
  snapshots_->store(stream, state_slot, source.draft_blocks.empty() ? Tensor() : hidden_row, snapshot->block());
  index_.insert(source, std::move(*snapshot));
  return true;
}

}  // namespace foretoken
