// What the target keeps of one sequence.
#pragma once

#include <cstdint>

#include "cache/block_table.h"
#include "cache/recurrent_state_store.h"

namespace foretoken {

/// Blocks of the KV cache and a slot of recurrent states; returns them when destroyed. The runner that made it must outlive it.
class TargetSequence {
 public:
  TargetSequence(BlockTable blocks, RecurrentStateStore& states, int32_t state_slot);
  ~TargetSequence();
  TargetSequence(TargetSequence&& other) noexcept;
  TargetSequence& operator=(TargetSequence&&) = delete;

  /// Tokens in the cache.
  [[nodiscard]] int64_t num_tokens() const { return num_tokens_; }
  /// Recorded rows of the last verify step that the next step adds to the states; kAcceptUnknown until the step is finished.
  [[nodiscard]] int32_t num_commit() const { return num_commit_; }
  [[nodiscard]] int32_t state_slot() const { return state_slot_; }
  [[nodiscard]] const BlockTable& blocks() const { return blocks_; }

 private:
  friend class TargetRunner;
  BlockTable blocks_;
  RecurrentStateStore* states_;  // null: moved from
  int32_t state_slot_;
  int64_t num_tokens_ = 0;
  int32_t num_commit_ = 0;
};

}  // namespace foretoken
