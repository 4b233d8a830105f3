// What rounds cost on this device, measured before there is a text, so that a depth policy need not find it out in one.
#pragma once

#include "speculative/depth_policy.h"
#include "speculative/generation_parts.h"

namespace foretoken {

/// Runs rounds of `num_sequences` sequences with made-up tokens, with 0 .. policy.max_drafts() drafts each, and tells the policy
/// their times. Depths come in the order of what they show: none, the most, one, the middle, the rest. Some milliseconds of such
/// rounds come first and do not count, since the first rounds of all are slower. Ends when kMeasuringUs have gone by, after what
/// is measured then; leaves out depths that the caches have no room for, and all where chains end by themselves. The Programs
/// should be prepared. All blocks and states go back; picks, hidden states and the records of a step are those of the last round.
/// Needs a proposer. Throws what rounds throw, never OutOfMemory for caches.
void measure_round_costs(const GenerationParts& parts, int64_t num_sequences, DepthPolicy& policy);

/// Time that one number of sequences may take, about: a device that needs longer for a few rounds learns the rest from texts.
inline constexpr double kMeasuringUs = 150e3;

}  // namespace foretoken
