// Which prefixes of token ids have cached rows: the target's KV blocks, the drafter's, and snapshots of recurrent state,
// together.
//
// A tree of blocks. A node stands for up to block_size tokens after those of its parent, and holds references on
//   target        KV block n of the positions of its tokens;
//   draft         drafter block n: the row with pair key k sits in slot k and is built from (t_{k+1}, h_k), so the tokens of the
//                 node settle all its rows but the last, whose next token is not the node's;
//   draft_before  drafter block n - 1, whole: its last row was built with this node's first token;
//   snapshot      the recurrent state after its last token t_{p-1}, where one was taken; with the hidden state h_{p-1} when it
//   came
//                 with drafter rows.
// Rows of a block past those that a node settles belong to whoever writes them: the sequence that the block came from may go on
// in it. Anybody else gets a copy of a block that is not whole, so a block has one writer.
//
// Nodes are found by a chain hash and then compared token by token, with their parent, so a collision costs time alone.
//
// Origin. Where prefill kernels give other bits for other numbers of rows, rows are those of a cold run only when they were
// computed by whole chunks of the prefill grid: origin kGrid. All others (text made by decode kernels, the last part of a prompt)
// are kOther: equal up to rounding. The two are kept apart: what descends from kOther rows is kOther, and never stands in for a
// kGrid node.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cache/block_reference.h"

namespace foretoken {

/// Hash of a block's tokens that follow a prefix with hash `parent`.
using PrefixHashFn = uint64_t (*)(uint64_t parent, std::span<const int32_t> token_ids);
[[nodiscard]] uint64_t prefix_hash(uint64_t parent, std::span<const int32_t> token_ids);

struct PrefixIndexOptions {
  int32_t block_size = 16;
  int64_t grid = 1;             // tokens; resuming off it changes the bits of what follows. 1: bits never depend on it
  bool reuse_generated = true;  // lookups also find kOther rows
  PrefixHashFn hash = prefix_hash;
};

/// The pools whose blocks the index holds. They must outlive it.
struct PrefixPools {
  BlockPool* target = nullptr;
  BlockPool* draft = nullptr;      // null: no drafter
  BlockPool* snapshots = nullptr;  // null: the model has no recurrent state, a sequence can resume at any position
};

/// What a sequence offers. Only committed rows: never those of a verify step whose accept count is not known.
struct PrefixSource {
  std::span<const int32_t> token_ids;      // [p]: tokens whose rows are in the target's cache
  std::span<const int32_t> target_blocks;  // at least ceil(p / block_size)
  std::span<const int32_t> draft_blocks;   // with exact rows of the pair keys 0 .. p-2; empty: no drafter rows
  int64_t num_grid_tokens = 0;             // leading tokens whose rows have origin kGrid
};

/// What a lookup found; empty when num_tokens is 0. Holds a reference on each block, so nothing of it is evicted meanwhile.
struct PrefixMatch {
  int64_t num_tokens = 0;                     // p: positions 0 .. p-1 are there, the sequence resumes at p
  int64_t num_grid_tokens = 0;                // leading ones with origin kGrid
  int64_t num_draft_rows = 0;                 // those of the pair keys 0 .. num_draft_rows-1
  bool needs_boundary_row = false;            // the drafter's row with key p-1 is missing; `snapshot` has its h_{p-1}
  std::vector<BlockReference> target_blocks;  // ceil(p / block_size); the last one is to be copied unless it is whole
  std::vector<BlockReference> draft_blocks;   // ceil(num_draft_rows / block_size), likewise
  BlockReference snapshot;                    // nothing for models without recurrent state
};

struct PrefixStatistics {
  int64_t num_evicted_nodes = 0;
  int64_t num_evicted_snapshots = 0;
};

/// Bookkeeping alone: it moves no bytes. Not thread-safe.
class PrefixIndex {
 public:
  /// Throws InvalidArgument without a target pool, or for sizes that are not positive.
  PrefixIndex(const PrefixPools& pools, const PrefixIndexOptions& options);
  ~PrefixIndex();
  PrefixIndex(const PrefixIndex&) = delete;
  PrefixIndex& operator=(const PrefixIndex&) = delete;

  /// The longest usable prefix of `token_ids` that leaves at least the last token to compute. With recurrent state it ends at a
  /// snapshot. Without, it ends on the grid (kGrid rows) or anywhere, but in front of the last token that matches, which settles
  /// all its drafter rows. `needs_draft`: only prefixes with drafter rows; their length is the same as without.
  [[nodiscard]] PrefixMatch lookup(std::span<const int32_t> token_ids, bool needs_draft);

  /// A free snapshot for insert; where all are in use, the least recently used one that no match holds is dropped first. Nothing
  /// when there is none.
  [[nodiscard]] std::optional<BlockReference> allocate_snapshot();
  /// Whether insert(source) would find all of it there, the snapshot included; it counts as used now. Throws as insert for a
  /// source that cannot be.
  [[nodiscard]] bool contains(const PrefixSource& source);
  /// Adds what is missing of the source's path, with `snapshot` at its end. Throws InvalidArgument, with nothing changed, for too
  /// few blocks, no tokens, drafter rows in an index without drafter, or a snapshot that is missing or not wanted.
  void insert(const PrefixSource& source, BlockReference snapshot = {});

  /// Evicts least recently used leaves until that many blocks of each pool are free. False, with nothing changed, when evicting
  /// everything would not be enough.
  [[nodiscard]] bool make_room(int64_t num_target_blocks, int64_t num_draft_blocks);
  /// Free blocks and those that the index alone holds: what admission may count on.
  [[nodiscard]] int64_t num_available_target_blocks() const { return target_.num_available(); }
  [[nodiscard]] int64_t num_available_draft_blocks() const { return draft_.num_available(); }

  /// Forgets everything.
  void clear();
  [[nodiscard]] int64_t num_nodes() const { return static_cast<int64_t>(nodes_.size()); }
  [[nodiscard]] int64_t num_snapshots() const { return static_cast<int64_t>(snapshots_.size()); }
  [[nodiscard]] const PrefixStatistics& statistics() const { return statistics_; }

 private:
  struct Node;
  enum class Origin : uint8_t { kGrid, kOther };
  using Usage = std::set<std::pair<uint64_t, Node*>>;  // (when last used, node)

  /// A pool and how many references of each block are the index's.
  class Holdings {
   public:
    explicit Holdings(BlockPool* pool);
    [[nodiscard]] BlockPool* pool() const { return pool_; }
    [[nodiscard]] BlockReference take(int32_t block);
    void drop(BlockReference& reference);
    /// Whether dropping one reference frees its block.
    [[nodiscard]] bool is_last(const BlockReference& reference) const;
    [[nodiscard]] int64_t num_free() const { return pool_ == nullptr ? 0 : pool_->num_free(); }
    [[nodiscard]] int64_t num_available() const;
    [[nodiscard]] bool can_free(int64_t blocks) const { return num_free() >= blocks || num_available() >= blocks; }

   private:
    BlockPool* pool_;
    std::vector<int32_t> held_;
  };

  /// A node and how many tokens of its path a sequence would resume with.
  struct Candidate {
    Node* node = nullptr;
    int64_t num_tokens = 0;
  };

  [[nodiscard]] uint64_t hash_of(const Node& parent, std::span<const int32_t> token_ids, Origin origin) const;
  [[nodiscard]] Node* find(Node& parent, std::span<const int32_t> token_ids, Origin origin) const;
  /// The child that stands for the next whole block of `token_ids`.
  [[nodiscard]] Node* next(Node& parent, std::span<const int32_t> token_ids, Origin origin) const;
  void consider(Node& node, std::span<const int32_t> token_ids, bool needs_draft, Candidate& best) const;
  void consider_with_partial_children(Node& node, std::span<const int32_t> token_ids, bool needs_draft, Candidate& best) const;
  [[nodiscard]] PrefixMatch match(const Candidate& candidate, bool needs_draft) const;
  void check_source(const PrefixSource& source) const;
  [[nodiscard]] Node* find_end(const PrefixSource& source) const;
  Node& add_child(Node& parent, std::span<const int32_t> token_ids, Origin origin, int32_t target_block);
  void attach_draft(Node& node, std::span<const int32_t> draft_blocks);
  void touch_path(Node* node);
  void touch_snapshot(Node& node);
  void drop_snapshot(Node& node);
  /// Removes a leaf, and the ancestors that nothing needs any more.
  void evict(Node* leaf);
  void remove(Node& leaf);
  [[nodiscard]] Node& next_victim(bool target_short, bool draft_short) const;

  PrefixIndexOptions options_;
  Holdings target_;
  Holdings draft_;
  BlockPool* snapshot_pool_;
  std::unique_ptr<Node> root_;
  std::unordered_multimap<uint64_t, std::unique_ptr<Node>> nodes_;
  Usage leaves_;
  Usage snapshots_;  // nodes with one
  uint64_t clock_ = 0;
  PrefixStatistics statistics_;
};

}  // namespace foretoken
