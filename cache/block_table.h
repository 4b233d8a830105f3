// The blocks of one sequence, in order of position.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cache/block_pool.h"

namespace foretoken {

/// Maps positions of a sequence to slots of a paged cache. Holds one reference on each of its blocks and gives them back when it
/// ends. The pool must outlive it. Not thread-safe.
class BlockTable {
 public:
  BlockTable(BlockPool& pool, int32_t block_size, int32_t max_blocks);
  ~BlockTable();
  BlockTable(BlockTable&& other) noexcept;
  BlockTable& operator=(BlockTable&& other) noexcept;

  /// Grows until `num_positions` positions have blocks. False, with nothing changed, when the pool has too few free blocks.
  /// Throws InvalidArgument beyond max_blocks.
  [[nodiscard]] bool reserve(int64_t num_positions);
  /// Appends blocks that somebody else holds too, with one more reference on each; nobody may write their positions any more.
  /// Throws InvalidArgument beyond max_blocks and InternalError for a block that is free; nothing is appended then.
  void share(std::span<const int32_t> blocks);
  /// Gives back the blocks that the first `num_positions` positions do not need.
  void truncate(int64_t num_positions);

  /// Slot of a position: block * block_size + offset. Throws InvalidArgument for a position without a block.
  [[nodiscard]] int64_t slot(int64_t position) const;
  [[nodiscard]] std::span<const int32_t> blocks() const { return blocks_; }
  [[nodiscard]] int64_t capacity() const { return static_cast<int64_t>(blocks_.size()) * block_size_; }
  [[nodiscard]] int32_t max_blocks() const { return max_blocks_; }

 private:
  BlockPool* pool_;
  int32_t block_size_;
  int32_t max_blocks_;
  std::vector<int32_t> blocks_;
};

}  // namespace foretoken
