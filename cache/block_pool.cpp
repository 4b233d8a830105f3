#include "cache/block_pool.h"

#include <string>

#include "core/error.h"

namespace foretoken {

BlockPool::BlockPool(int32_t num_blocks) {
  if (num_blocks <= 0) {
    throw Error(ErrorCode::kInvalidArgument,
                {.what = "blocks of a pool", .expected = "at least 1", .got = std::to_string(num_blocks)});
  }
  references_.assign(static_cast<size_t>(num_blocks), 0);
  free_.reserve(static_cast<size_t>(num_blocks));
  for (int32_t block = num_blocks - 1; block >= 0; --block) free_.push_back(block);
}

std::optional<int32_t> BlockPool::allocate() {
  if (free_.empty()) return std::nullopt;
  const int32_t block = free_.back();
  free_.pop_back();
  references_[static_cast<size_t>(block)] = 1;
  return block;
}

void BlockPool::add_reference(int32_t block) {
  check_in_use(block);
  ++references_[static_cast<size_t>(block)];
}

void BlockPool::release(int32_t block) {
  check_in_use(block);
  if (--references_[static_cast<size_t>(block)] == 0) free_.push_back(block);
}

int32_t BlockPool::num_references(int32_t block) const {
  if (block < 0 || block >= num_blocks()) return 0;
  return references_[static_cast<size_t>(block)];
}

void BlockPool::check_in_use(int32_t block) const {
  if (num_references(block) > 0) return;
  throw Error(ErrorCode::kInternalError, {.what = "block " + std::to_string(block) + " is not in use",
                                          .where = "block pool of " + std::to_string(num_blocks()),
                                          .expected = "an allocated block"});
}

}  // namespace foretoken
