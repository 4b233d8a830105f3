// Parameters of the tensor-core kernels of a mixture of experts. Addresses are the device's; strides count elements between rows.
#pragma once

#include <cstdint>

#include "backends/gpu/linear_params.h"

namespace foretoken::cuda {

inline constexpr uint32_t kExpertThreads = 256;
inline constexpr uint32_t kExpertWarps = 8;
/// Weight rows of a tile.
inline constexpr uint32_t kExpertTileRows = 8;
/// Rows of x at most whose products moe_down keeps to itself: as many pairs may meet in one expert.
inline constexpr uint32_t kDownRows = 8;
/// Between rows of x in shared memory, beyond a multiple of 128: fragments of neighbouring rows meet no bank conflict.
inline constexpr uint32_t kRowPadBytes = 64;

/// Rows and experts that moe_route_few chooses for in one work group.
inline constexpr uint32_t kRouteFewRows = 8;
inline constexpr uint32_t kRouteFewExperts = 512;
inline constexpr uint32_t kRouteFewPairs = 256;
/// Experts at most that the work groups of a block choose from.
inline constexpr uint32_t kRouteTileExperts = 256;
inline constexpr uint32_t kRouteFewThreads = kRouteFewRows * 32;

/// moe_route_few, of one work group.
struct MoeRouteFewParams {
  uint64_t logits;          // [T, E]
  uint64_t topk_ids;        // [T, k]
  uint64_t topk_weights;    // [T, k]
  uint64_t expert_offsets;  // [E+1]
  uint64_t expert_pairs;    // [T*k]
  uint64_t logits_stride;
  uint32_t num_rows;
  uint32_t num_experts;
  uint32_t top_k;
  uint32_t renormalise;
};

/// moe_up and moe_products: grid (column tiles, slots among the experts that have pairs). Group memory: rows of x at once *
/// x_row_bytes.
struct MoeTileParams {
  gpu::WeightParams weight;  // [E, 2*I, H] gate rows first, or [E, H, I]
  uint64_t x;                // BF16 rows
  uint64_t x_stride;
  uint64_t expert_offsets;  // [E+1]
  uint64_t expert_pairs;    // [P]
  uint64_t out;             // [P, out_features]
  uint32_t pairs_per_row;   // pair p reads row p / pairs_per_row
  uint32_t num_pairs;
  uint32_t num_experts;
  uint32_t in_features;
  uint32_t out_features;
  uint32_t slice_bits;  // 0 to 3: 2^slice_bits warps share a row; it decides the order of sums
  uint32_t x_row_bytes;
  uint32_t out_is_bf16;
};

/// moe_down: grid: column tiles. Group memory: num_pairs * (x_row_bytes + 4 * kExpertTileRows + 8) + 12 * active experts at most.
struct MoeDownParams {
  gpu::WeightParams weight;  // [E, H, I]
  uint64_t x;                // [P, I] BF16
  uint64_t expert_offsets;   // [E+1]
  uint64_t expert_pairs;     // [P]
  uint64_t topk_weights;     // [T, k]
  uint64_t shared;           // [T, H], or 0
  uint64_t shared_gate;      // [T, 1] F32
  uint64_t out;              // [T, H]
  uint64_t shared_stride;
  uint64_t shared_gate_stride;
  uint64_t out_stride;
  uint32_t num_rows;  // T
  uint32_t top_k;
  uint32_t num_experts;
  uint32_t in_features;
  uint32_t out_features;
  uint32_t x_row_bytes;
  uint32_t shared_is_bf16;
  uint32_t out_is_bf16;
};

/// Of the kernels of a block of few rows: rows of x and picks at most; threads, those that multiply and the warps that load (one
/// alone does not give out the many copies of moe_block_up as fast as memory serves them); the ring of moe_block_up, and units of
/// a row in a stage; columns of a work group of moe_block_down, and matrices whose columns it holds at once.
inline constexpr uint32_t kBlockRows = 2;
inline constexpr uint32_t kBlockPairs = 32;
inline constexpr uint32_t kBlockLoaders = 2;
inline constexpr uint32_t kBlockUpThreads = kExpertThreads + kBlockLoaders * 32;
inline constexpr uint32_t kBlockDownThreads = kExpertThreads + 32;
inline constexpr uint32_t kBlockStages = 4;
inline constexpr uint32_t kBlockStageUnits = 8;
inline constexpr uint32_t kBlockColumns = 16;
inline constexpr uint32_t kBlockSlots = 8;
/// Group memory that moe_block_down needs at most, with what it declares.
inline constexpr uint32_t kBlockGroupMemory = 160 << 10;

/// moe_block_up: grid (num_sets sets of kExpertTileRows columns, pairs). slice_bits: 1 to 3. The lists of `tile` are not used:
/// each work group routes the rows.
struct MoeBlockUpParams {
  MoeTileParams tile;
  MoeRouteFewParams route;
  uint32_t num_sets;
  uint32_t reserved;
};

/// moe_block_down: grid: column tiles. It writes what moe_route writes, and the output of the shared expert.
struct MoeBlockDownParams {
  MoeDownParams down;
  MoeRouteFewParams route;
  gpu::WeightParams shared_weight;  // [H, S]
  uint64_t shared_x;                // [T, S] BF16
  uint64_t shared_x_stride;
  uint32_t shared_features;    // S
  uint32_t shared_slice_bits;  // as SmallProjection has it
  uint32_t shared_row_bytes;   // of shared_x in group memory
  uint32_t slot_bytes;         // of the columns of one matrix
};

}  // namespace foretoken::cuda
