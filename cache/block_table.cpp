#include "cache/block_table.h"

#include <string>
#include <utility>

#include "core/error.h"

namespace foretoken {

BlockTable::BlockTable(BlockPool& pool, int32_t block_size, int32_t max_blocks)
    : pool_(&pool), block_size_(block_size), max_blocks_(max_blocks) {
  blocks_.reserve(static_cast<size_t>(max_blocks));
}

BlockTable::~BlockTable() { truncate(0); }

BlockTable::BlockTable(BlockTable&& other) noexcept
    : pool_(other.pool_),
      block_size_(other.block_size_),
      max_blocks_(other.max_blocks_),
      blocks_(std::exchange(other.blocks_, {})) {}

BlockTable& BlockTable::operator=(BlockTable&& other) noexcept {
  if (this == &other) return *this;
  truncate(0);
  pool_ = other.pool_;
  block_size_ = other.block_size_;
  max_blocks_ = other.max_blocks_;
  blocks_ = std::exchange(other.blocks_, {});
  return *this;
}

bool BlockTable::reserve(int64_t num_positions) {
  const int64_t needed = (num_positions + block_size_ - 1) / block_size_;
  if (needed > max_blocks_) {
    throw Error(ErrorCode::kInvalidArgument, {.what = "positions of a sequence",
                                              .expected = "at most " + std::to_string(int64_t{max_blocks_} * block_size_),
                                              .got = std::to_string(num_positions)});
  }
  const int64_t missing = needed - static_cast<int64_t>(blocks_.size());
  if (missing > pool_->num_free()) return false;
  for (int64_t i = 0; i < missing; ++i) blocks_.push_back(*pool_->allocate());
  return true;
}

void BlockTable::share(std::span<const int32_t> blocks) {
  const size_t held = blocks_.size();
  if (held + blocks.size() > static_cast<size_t>(max_blocks_)) {
    throw Error(ErrorCode::kInvalidArgument, {.what = "blocks of a sequence",
                                              .expected = "at most " + std::to_string(max_blocks_),
                                              .got = std::to_string(held + blocks.size())});
  }
  try {
    for (const int32_t block : blocks) {
      pool_->add_reference(block);
      blocks_.push_back(block);
    }
  } catch (...) {
    truncate(static_cast<int64_t>(held) * block_size_);
    throw;
  }
}

void BlockTable::truncate(int64_t num_positions) {
  const int64_t needed = (num_positions + block_size_ - 1) / block_size_;
  while (static_cast<int64_t>(blocks_.size()) > needed) {
    pool_->release(blocks_.back());
    blocks_.pop_back();
  }
}

int64_t BlockTable::slot(int64_t position) const {
  if (position < 0 || position >= capacity()) {
    throw Error(ErrorCode::kInvalidArgument, {.what = "position without a cache block",
                                              .expected = "0 .. " + std::to_string(capacity() - 1),
                                              .got = std::to_string(position)});
  }
  return int64_t{blocks_[static_cast<size_t>(position / block_size_)]} * block_size_ + position % block_size_;
}

}  // namespace foretoken
