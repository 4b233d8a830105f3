// Products of tiles: rows of BF16 activations by rows of a BF16 weight, both read along K as they lie in memory, sums in float32.
// Copies run kStages - 1 steps ahead of the products. The order of a sum is that of K, whatever the shape of the tile.
#pragma once

#include "backends/cuda/kernels/tensor_cores.cuh"

namespace foretoken::cuda {
namespace {

/// Elements of K in one step: a tile row is 128 bytes.
constexpr uint32_t kTileDepth = 64;

/// kRows x kColumns of a result, computed by kWarpsDown x kWarpsAcross warps.
template <uint32_t kRowsOfTile, uint32_t kColumnsOfTile, uint32_t kWarpsDown, uint32_t kWarpsAcross, uint32_t kStagesOfTile>
struct TileShape {
  static constexpr uint32_t kRows = kRowsOfTile;
  static constexpr uint32_t kColumns = kColumnsOfTile;
  static constexpr uint32_t kStages = kStagesOfTile;
  static constexpr uint32_t kThreads = kWarpsDown * kWarpsAcross * gpu::kLanes;
  static constexpr uint32_t kAcross = kWarpsAcross;
  static constexpr uint32_t kWarpRows = kRows / kWarpsDown;
  static constexpr uint32_t kWarpColumns = kColumns / kWarpsAcross;
  static constexpr uint32_t kRowBlocks = kWarpRows / 16;
  static constexpr uint32_t kColumnBlocks = kWarpColumns / 8;
  static constexpr uint32_t kCopyRows = kThreads / 8;  // rows that the threads copy at a time
  static constexpr uint32_t kRowCopies = kRows / kCopyRows;
  static constexpr uint32_t kColumnCopies = kColumns / kCopyRows;
  static constexpr uint32_t kStageBytes = (kRows + kColumns) * 128;
  static constexpr uint32_t kBytes = kStages * kStageBytes;
  static_assert(kColumnBlocks % 2 == 0 && kCopyRows % 8 == 0 && kRows % kCopyRows == 0 && kColumns % kCopyRows == 0);
};

/// Where a thread copies from: rows threadIdx.x / 8, + kCopyRows, ... of the tile, `offset` bytes after `base`.
template <uint32_t kCopies>
struct TileSource {
  uint64_t base;
  uint32_t offset[kCopies];
};

/// A warp's part of the result, in blocks of 16 x 8.
template <class Shape>
struct TileSums {
  float block[Shape::kRowBlocks][Shape::kColumnBlocks][4];

  /// Calls use(row, column, first, second) with two neighbours in a row, counted from the tile's corner.
  template <class Use>
  __device__ __forceinline__ void for_each_pair(Use use) const {
    const uint32_t warp = threadIdx.x / gpu::kLanes;
    const uint32_t lane = threadIdx.x % gpu::kLanes;
    const uint32_t row = warp / Shape::kAcross * Shape::kWarpRows + lane / 4;
    const uint32_t column = warp % Shape::kAcross * Shape::kWarpColumns + lane % 4 * 2;
#pragma unroll
    for (uint32_t i = 0; i < Shape::kRowBlocks; ++i) {
#pragma unroll
      for (uint32_t j = 0; j < Shape::kColumnBlocks; ++j) {
        use(row + i * 16, column + j * 8, block[i][j][0], block[i][j][1]);
        use(row + i * 16 + 8, column + j * 8, block[i][j][2], block[i][j][3]);
      }
    }
  }

  /// Likewise where the columns are eight of gate and eight of up in turn: use(row, column, gates[2], ups[2]) with the column
  /// among those of either.
  template <class Use>
  __device__ __forceinline__ void for_each_gated_pair(Use use) const {
    const uint32_t warp = threadIdx.x / gpu::kLanes;
    const uint32_t lane = threadIdx.x % gpu::kLanes;
    const uint32_t row = warp / Shape::kAcross * Shape::kWarpRows + lane / 4;
    const uint32_t column = warp % Shape::kAcross * (Shape::kWarpColumns / 2) + lane % 4 * 2;
#pragma unroll
    for (uint32_t i = 0; i < Shape::kRowBlocks; ++i) {
#pragma unroll
      for (uint32_t j = 0; j < Shape::kColumnBlocks; j += 2) {
        use(row + i * 16, column + j * 4, make_float2(block[i][j][0], block[i][j][1]),
            make_float2(block[i][j + 1][0], block[i][j + 1][1]));
        use(row + i * 16 + 8, column + j * 4, make_float2(block[i][j][2], block[i][j][3]),
            make_float2(block[i][j + 1][2], block[i][j + 1][3]));
      }
    }
  }
};

/// What a warp multiplies in 16 elements of K.
template <class Shape>
struct TileFragments {
  uint32_t rows[Shape::kRowBlocks][4];
  uint32_t columns[Shape::kColumnBlocks / 2][4];

  /// `row_address` and `column_address`: this lane's places in the stage, see warp_places.
  __device__ __forceinline__ void load(uint32_t row_address, uint32_t column_address, uint32_t step) {
#pragma unroll
    for (uint32_t i = 0; i < Shape::kRowBlocks; ++i) load_blocks(rows[i], (row_address ^ step * 32) + i * 16 * 128);
#pragma unroll
    for (uint32_t j = 0; j < Shape::kColumnBlocks / 2; ++j) load_blocks(columns[j], (column_address ^ step * 32) + j * 16 * 128);
  }
  __device__ __forceinline__ void multiply_into(TileSums<Shape>& sums) const {
#pragma unroll
    for (uint32_t i = 0; i < Shape::kRowBlocks; ++i) {
#pragma unroll
      for (uint32_t j = 0; j < Shape::kColumnBlocks; ++j) {
        multiply(sums.block[i][j], rows[i], columns[j / 2][j % 2 * 2], columns[j / 2][j % 2 * 2 + 1]);
      }
    }
  }
};

/// The columns of a tile where they lie in memory as BF16.
template <class Shape>
struct Bf16Columns {
  TileSource<Shape::kColumnCopies> source;

  /// Begins to load step `step`, before `put` is called for it.
  __device__ __forceinline__ void fetch(uint32_t /*step*/) {}
  /// Puts step `step` at `stage`, the address of the columns' part of a stage.
  __device__ __forceinline__ void put(uint32_t stage, uint32_t step) const {
    const uint32_t place = stage + swizzled(threadIdx.x / 8, threadIdx.x % 8);
    const uint64_t address = source.base + uint64_t{step} * (kTileDepth * 2);
#pragma unroll
    for (uint32_t i = 0; i < Shape::kColumnCopies; ++i)
      copy_async(place + i * Shape::kCopyRows * 128, address + source.offset[i]);
  }
};

/// sums = the products over num_steps * kTileDepth elements of K. `shared` is the address of Shape::kBytes, aligned to 128, that
/// no thread of the group uses before or after but through this function. `columns` has fetch and put as Bf16Columns does.
template <class Shape, class Columns>
__device__ __forceinline__ void multiply_tiles(uint32_t shared, const TileSource<Shape::kRowCopies>& rows, Columns columns,
                                               uint32_t num_steps, TileSums<Shape>& sums) {
  const uint32_t row_target = shared + swizzled(threadIdx.x / 8, threadIdx.x % 8);
  const auto put = [&](uint32_t step, uint32_t stage) {
    const uint64_t address = rows.base + uint64_t{step} * (kTileDepth * 2);
#pragma unroll
    for (uint32_t i = 0; i < Shape::kRowCopies; ++i) {
      copy_async(row_target + stage * Shape::kStageBytes + i * Shape::kCopyRows * 128, address + rows.offset[i]);
    }
    columns.put(shared + stage * Shape::kStageBytes + Shape::kRows * 128, step);
  };
  const uint32_t warp = threadIdx.x / gpu::kLanes;
  const uint32_t lane = threadIdx.x % gpu::kLanes;
  const uint32_t row_place = shared + swizzled(warp / Shape::kAcross * Shape::kWarpRows + lane % 16, lane / 16);
  const uint32_t column_place = shared + Shape::kRows * 128 +
                                swizzled(warp % Shape::kAcross * Shape::kWarpColumns + lane % 8 + lane / 16 * 8, lane / 8 % 2);
  __syncthreads();  // the stages have been read by whoever used them before
#pragma unroll
  for (uint32_t stage = 0; stage + 1 < Shape::kStages; ++stage) {
    if (stage < num_steps) {
      columns.fetch(stage);
      put(stage, stage);
    }
    commit_copies();
  }
  if (Shape::kStages - 1 < num_steps) columns.fetch(Shape::kStages - 1);
  uint32_t stage = 0;
  uint32_t next = Shape::kStages - 1;
  for (uint32_t step = 0; step < num_steps; ++step) {
    wait_copies<Shape::kStages - 2>();
    __syncthreads();
    const uint32_t place = stage * Shape::kStageBytes;
    TileFragments<Shape> fragments[2];
    fragments[0].load(row_place + place, column_place + place, 0);
    if (step + Shape::kStages - 1 < num_steps) put(step + Shape::kStages - 1, next);
    commit_copies();
    if (step + Shape::kStages < num_steps) columns.fetch(step + Shape::kStages);
#pragma unroll
    for (uint32_t k = 0; k < kTileDepth / 16; ++k) {
      if (k + 1 < kTileDepth / 16) fragments[(k + 1) % 2].load(row_place + place, column_place + place, k + 1);
      fragments[k % 2].multiply_into(sums);
    }
    stage = stage + 1 == Shape::kStages ? 0 : stage + 1;
    next = next + 1 == Shape::kStages ? 0 : next + 1;
  }
}

/// Two neighbours in a row of float32 or BF16; `even`: both are there, at an address of a multiple of their size.
__device__ __forceinline__ void store_pair(uint64_t base, uint64_t index, float2 values, bool is_bf16, bool even,
                                           bool has_second) {
  if (!even) {
    gpu::store_float(base, index, values.x, is_bf16);
    if (has_second) gpu::store_float(base, index + 1, values.y, is_bf16);
  } else if (is_bf16) {
    *gpu::pointer<uint32_t>(base + index * 2) = pack_bf16(values.x, values.y);
  } else {
    *gpu::pointer<float2>(base + index * 4) = values;
  }
}

}  // namespace
}  // namespace foretoken::cuda
