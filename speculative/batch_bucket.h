// Sizes that Programs are recorded for, so that a few of them serve every batch.
#pragma once

#include <bit>
#include <cstdint>

namespace foretoken {

/// Most sequences of one step.
inline constexpr int64_t kMaxBatch = 64;

/// The number of sequences of the Program that serves `num_sequences` (1 .. kMaxBatch): the next power of two.
[[nodiscard]] constexpr int64_t batch_bucket(int64_t num_sequences) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(num_sequences)));
}

/// The number of rows of the Program that serves `num_rows` of `bucket` sequences: the next multiple of the bucket.
[[nodiscard]] constexpr int64_t row_bucket(int64_t num_rows, int64_t bucket) { return (num_rows + bucket - 1) / bucket * bucket; }

}  // namespace foretoken
