// One user's hold on one block of a pool.
#pragma once

#include <utility>

#include "cache/block_pool.h"

namespace foretoken {

/// Gives its reference back when it ends. The pool must outlive it. Not thread-safe.
class BlockReference {
 public:
  BlockReference() = default;
  /// Takes over a reference that the caller holds: of BlockPool::allocate.
  BlockReference(BlockPool& pool, int32_t block) : pool_(&pool), block_(block) {}
  /// One more reference. Throws InternalError for a block that is free or does not exist.
  [[nodiscard]] static BlockReference share(BlockPool& pool, int32_t block) {
    pool.add_reference(block);
    return {pool, block};
  }
  ~BlockReference() { reset(); }
  BlockReference(BlockReference&& other) noexcept : pool_(std::exchange(other.pool_, nullptr)), block_(other.block_) {}
  BlockReference& operator=(BlockReference&& other) noexcept {
    if (this == &other) return *this;
    reset();
    pool_ = std::exchange(other.pool_, nullptr);
    block_ = other.block_;
    return *this;
  }

  [[nodiscard]] explicit operator bool() const { return pool_ != nullptr; }
  /// The block; only while there is one.
  [[nodiscard]] int32_t block() const { return block_; }
  void reset() {
    if (pool_ != nullptr) std::exchange(pool_, nullptr)->release(block_);
  }

 private:
  BlockPool* pool_ = nullptr;
  int32_t block_ = -1;
};

}  // namespace foretoken
