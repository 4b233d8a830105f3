// The prefix cache as an engine uses it: the index, and the copies on the device that go with it.
//
// On admission: lookup; make_room for the blocks that the request needs beyond num_shared_*_blocks(match); resume into fresh
// tables and a fresh state slot; prefill from match.num_tokens on, in chunks that end on the grid. Where match.needs_boundary_row
// the drafter's row with pair key p-1 is appended first, alone and exact, from the hidden row that resume gave and the prompt's
// token p: a cold run appends the row of a chunk's last key in the same way, when it begins the next chunk.
// In prefill: after the chunk that ends at p, with the drafter's rows up to key p-2: insert where wants_insert.
// At the end of a turn: commit the recurrent states, append the drafter's missing rows up to key p-2, insert.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>

#include "cache/paged_kv_cache.h"
#include "cache/prefix_index.h"
#include "cache/state_snapshots.h"

namespace foretoken {

struct PrefixCacheOptions {
  size_t snapshot_bytes = 0;           // device memory for snapshots; none fits: models with recurrent state cache nothing
  int64_t prefill_chunk = 512;         // the grid of prefill
  int64_t snapshot_spacing = 2048;     // tokens from snapshot to snapshot in a prompt; a multiple of prefill_chunk
  bool row_invariant_prefill = false;  // prefill gives the bits of decode kernels, so every position is on the grid
  bool reuse_generated = true;         // a turn may continue text that decode kernels made
  int32_t max_snapshots = std::numeric_limits<int32_t>::max();  // however many snapshot_bytes has room for
  bool draft_rows = true;  // a prefix comes with the drafter's rows; otherwise the drafter knows nothing of what was cached
};

/// Device memory of the models' parts that a prefix is about. All must outlive the cache.
struct PrefixMemory {
  PagedKvCache* target = nullptr;
  RecurrentStateStore* states = nullptr;
  PagedKvCache* draft = nullptr;  // null: no drafter
  size_t hidden_row_bytes = 0;    // of the hidden state that the drafter is fed
};

/// Where a match goes: tables that are empty, a slot of its own.
struct ResumedSequence {
  BlockTable* target = nullptr;
  int32_t state_slot = 0;
  BlockTable* draft = nullptr;  // null: without drafter rows
  Tensor hidden_row{};          // [1, hidden_size]; written where the match needs its boundary row
};

/// Not thread-safe; works on the stream that it is given and waits for nothing.
class PrefixCache {
 public:
  /// Reserves the snapshots. Throws OutOfMemory; InvalidArgument for missing parts, spacing off the grid, or block sizes that
  /// differ between target and drafter.
  PrefixCache(GpuBackend& backend, const PrefixMemory& memory, const PrefixCacheOptions& options);

  [[nodiscard]] const PrefixCacheOptions& options() const { return options_; }
  /// False where the model has recurrent state and no snapshot fits: lookups then find nothing, and nothing is inserted.
  [[nodiscard]] bool is_enabled() const { return !is_recurrent_ || snapshots_; }
  /// See PrefixIndex::lookup. The match must end before the cache does.
  [[nodiscard]] PrefixMatch lookup(std::span<const int32_t> token_ids, bool needs_draft);
  /// Blocks of the match that a sequence uses as they are; the others are copied into blocks of its own.
  [[nodiscard]] int64_t num_shared_target_blocks(const PrefixMatch& match) const;
  [[nodiscard]] int64_t num_shared_draft_blocks(const PrefixMatch& match) const;

  /// Shares the match's whole blocks with the tables, copies the others, and loads the states. Throws OutOfMemory when a pool has
  /// no block for a copy, InvalidState for a table that is not empty, InvalidArgument where a drafter's table comes with a match
  /// that was not looked up for one; tables are then as before.
  void resume(Stream& stream, const PrefixMatch& match, const ResumedSequence& into);

  /// Whether to insert when a prompt of `num_prompt_tokens` has been read up to `position`: at borders of chunks; with recurrent
  /// state, at those that are multiples of the spacing, and at the last one that a repeat of the prompt can use.
  [[nodiscard]] bool wants_insert(int64_t position, int64_t num_prompt_tokens) const;
  /// num_grid_tokens of a sequence after `num_rows` more rows from `first_position`, computed in one prefill pass.
  [[nodiscard]] int64_t advance_grid(int64_t num_grid_tokens, int64_t first_position, int64_t num_rows) const;
  /// Adds a prefix with the states of `state_slot` after its last token, which must be committed, and `hidden_row` [1,
  /// hidden_size] of that token (not read without drafter rows). False where no lookup would use it, or there is no memory for a
  /// snapshot: nothing is added then. Throws as PrefixIndex::insert.
  bool insert(Stream& stream, const PrefixSource& source, int32_t state_slot, const Tensor& hidden_row);

  /// See PrefixIndex.
  [[nodiscard]] bool make_room(int64_t num_target_blocks, int64_t num_draft_blocks) {
    return index_.make_room(num_target_blocks, num_draft_blocks);
  }
  [[nodiscard]] const PrefixIndex& index() const { return index_; }
  void clear() { index_.clear(); }
  /// Device memory of the snapshots.
  [[nodiscard]] size_t bytes() const { return snapshots_ ? snapshots_->bytes() : 0; }

 private:
  PrefixMemory memory_;
  PrefixCacheOptions options_;
  bool is_recurrent_;
  std::optional<StateSnapshots> snapshots_;
  PrefixIndex index_;
};

}  // namespace foretoken
