// Which blocks of a paged cache are free and how many users each other one has.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace foretoken {

/// Reference-counted blocks 0 .. num_blocks - 1, handed out last-freed first (block 0 first of all). Not thread-safe.
class BlockPool {
 public:
  explicit BlockPool(int32_t num_blocks);

  /// A free block with one reference; nothing when all are in use.
  [[nodiscard]] std::optional<int32_t> allocate();
  /// One more user of `block`. Throws InternalError for a block that is free or does not exist.
  void add_reference(int32_t block);
  /// One user less; the last one returns the block. Throws InternalError for a block that is free or does not exist.
  void release(int32_t block);

  [[nodiscard]] int32_t num_blocks() const { return static_cast<int32_t>(references_.size()); }
  [[nodiscard]] int32_t num_free() const { return static_cast<int32_t>(free_.size()); }
  [[nodiscard]] int32_t num_references(int32_t block) const;

 private:
  void check_in_use(int32_t block) const;

  std::vector<int32_t> free_;  // a stack
  std::vector<int32_t> references_;
};

}  // namespace foretoken
