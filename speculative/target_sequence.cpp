#include "speculative/target_sequence.h"

#include <utility>

namespace foretoken {

TargetSequence::TargetSequence(BlockTable blocks, RecurrentStateStore& states, int32_t state_slot)
    : blocks_(std::move(blocks)), states_(&states), state_slot_(state_slot) {}

TargetSequence::TargetSequence(TargetSequence&& other) noexcept
    : blocks_(std::move(other.blocks_)),
      states_(std::exchange(other.states_, nullptr)),
      state_slot_(other.state_slot_),
      num_tokens_(other.num_tokens_),
      num_commit_(other.num_commit_) {}

TargetSequence::~TargetSequence() {
  if (states_ != nullptr) states_->release(state_slot_);
}

}  // namespace foretoken
