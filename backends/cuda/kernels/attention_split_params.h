// What gated_attention on tensor cores needs for few rows; its parameters are gpu::GatedAttentionParams.
#pragma once

#include <cstdint>
#include <string>

#include "backends/gpu/attention_params.h"

namespace foretoken::cuda {

inline constexpr uint32_t kSplitThreads = 256;
/// Keys that a work group takes at a time.
inline constexpr uint32_t kSplitKeys = 64;

/// What a work group shares over kTiles * 16 queries: tiles of BF16, and more.
template <uint32_t kDim, uint32_t kTiles>
struct SplitMemory {
  uint8_t queries[kTiles * 16 * kDim * 2];
  uint8_t keys[kSplitKeys * kDim * 2];
  uint8_t values[kSplitKeys * kDim * 2];
  uint8_t shares[2][kTiles * 16 * kSplitKeys * 2];  // as the sum of two BF16 numbers, the larger first
  float parts[kSplitThreads / 32][kTiles * 16];     // a maximum or sum of each warp
  uint64_t offsets[kSplitKeys];                     // of the next keys in the caches, in elements
};

/// The kernel for heads of `head_dim` elements that takes `tiles` * 16 queries at a time.
[[nodiscard]] inline std::string attention_split_name(uint32_t head_dim, uint32_t tiles) {
  return "attention_split_d" + std::to_string(head_dim) + "_q" + std::to_string(tiles * 16);
}

}  // namespace foretoken::cuda
