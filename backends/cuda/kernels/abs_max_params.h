// Parameters of abs_max over rings of bulk copies. Addresses are the device's.
#pragma once

#include <cstdint>

namespace foretoken::cuda {

inline constexpr uint32_t kAbsMaxBulkThreads = 256;
inline constexpr uint32_t kAbsMaxBulkWarps = kAbsMaxBulkThreads / 32;
/// Bytes of one copy, and the most copies that a warp has under way.
inline constexpr uint32_t kAbsMaxBulkChunk = 4096;
inline constexpr uint32_t kAbsMaxBulkStages = 6;

/// grid: at most one work group per compute unit. Group memory: kAbsMaxBulkWarps * num_stages chunks.
struct AbsMaxBulkParams {
  uint64_t x;          // without gaps, at a multiple of 16
  uint64_t num_bytes;  // a multiple of 16
  uint64_t partial;    // [grid], bits of the largest magnitude
  uint32_t num_stages;
  uint32_t is_bf16;
};

}  // namespace foretoken::cuda
