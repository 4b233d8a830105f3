// Parameters of the kernels around the BF16 matrix product of prefill. The rows of a call are cut into chunks of
// kPrefillChunkRows; products are kept transposed, chunk after chunk: [chunk][N][rows of that chunk] F32.
#pragma once

#include <cstdint>

namespace foretoken::cpu {

inline constexpr uint32_t kPrefillChunkRows = 64;
/// The last chunk is padded with zero rows to a multiple of this.
inline constexpr uint32_t kPrefillRowAlignment = 32;
/// Columns of a work item that writes products out.
inline constexpr uint32_t kPrefillStoreColumns = 64;

/// Rounds rows to BF16, and adds zero rows. Items are padded rows.
struct PrefillRoundParams {
  uint64_t x;    // [num_rows, in_features] F32
  uint64_t out;  // [padded rows, in_features] BF16
  uint64_t x_stride;
  uint32_t num_rows;
  uint32_t in_features;
};
static_assert(sizeof(PrefillRoundParams) == 32);

/// out = scale product^T, or silu(scale product^T) * (up_scale up^T). Item i is column tile i % tiles of chunk i / tiles.
struct PrefillStoreParams {
  uint64_t product;
  uint64_t up;        // 0: none
  uint64_t scale;     // [out_features] F32; 0: none
  uint64_t up_scale;  // likewise
  uint64_t out;
  uint64_t out_stride;
  uint32_t num_rows;
  uint32_t padded_rows;
  uint32_t out_features;
  uint32_t reserved;
};
static_assert(sizeof(PrefillStoreParams) == 64);

}  // namespace foretoken::cpu
