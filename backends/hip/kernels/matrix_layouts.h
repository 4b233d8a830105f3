// Where instructions that multiply matrices want their elements: for each kind, which chunks of a tile a lane reads and which
// results it gets. Constant functions alone, so that a test can be the instruction.
#pragma once

#include <cstdint>

namespace foretoken::hip {

/// Elements of K in one stage of a tile, and those that lie together: 16 bytes of BF16.
inline constexpr uint32_t kTileDepth = 32;
inline constexpr uint32_t kChunkElements = 8;
inline constexpr uint32_t kRowChunks = kTileDepth / kChunkElements;
/// Rows and columns of the blocks that a wave multiplies.
inline constexpr uint32_t kBlock = 16;

/// Where a chunk of a row lies in a stage. Neither eight rows' chunks of one number nor all chunks of two rows share a bank.
constexpr uint32_t chunk_place(uint32_t row, uint32_t chunk) { return row * kRowChunks + (chunk ^ row / 2 % kRowChunks); }

// A product of two blocks of kBlock rows, read along K, is the sum of kSteps steps. In each a lane holds kChunks chunks of either
// operand, the same of both, so the order of the elements of K among lanes and instructions does not matter. Results are numbered
// by the row of the first operand and the row of the second, which is the column.

/// v_mfma_f32_16x16x16 of BF16 on waves of 64: lane l holds four elements of row l % 16, those of K from l / 16 * 4 on. One step
/// is two instructions, for the lower and the upper half of each chunk.
struct MfmaLayout {
  static constexpr uint32_t kWave = 64;
  static constexpr uint32_t kSteps = 1;
  static constexpr uint32_t kChunks = 1;
  static constexpr uint32_t kResults = 4;
  static constexpr uint32_t operand_row(uint32_t lane, uint32_t /*chunk*/) { return lane % 16; }
  static constexpr uint32_t operand_chunk(uint32_t lane, uint32_t /*step*/, uint32_t /*chunk*/) { return lane / 16; }
  static constexpr uint32_t result_row(uint32_t lane, uint32_t i) { return lane / 16 * 4 + i; }
  static constexpr uint32_t result_column(uint32_t lane, uint32_t /*i*/) { return lane % 16; }
};

/// v_wmma_f32_16x16x16_bf16 of gfx11 on waves of 32: lanes l and l + 16 hold all 16 elements of row l, and the results alternate
/// between them.
struct WmmaLayout {
  static constexpr uint32_t kWave = 32;
  static constexpr uint32_t kSteps = 2;
  static constexpr uint32_t kChunks = 2;
  static constexpr uint32_t kResults = 8;
  static constexpr uint32_t operand_row(uint32_t lane, uint32_t /*chunk*/) { return lane % 16; }
  static constexpr uint32_t operand_chunk(uint32_t /*lane*/, uint32_t step, uint32_t chunk) { return step * 2 + chunk; }
  static constexpr uint32_t result_row(uint32_t lane, uint32_t i) { return i * 2 + lane / 16; }
  static constexpr uint32_t result_column(uint32_t lane, uint32_t /*i*/) { return lane % 16; }
};

/// v_wmma_f32_16x16x16_bf16 of gfx12 on waves of 32: lanes l and l + 16 share row l, eight elements each, and the results.
struct SplitWmmaLayout {
  static constexpr uint32_t kWave = 32;
  static constexpr uint32_t kSteps = 2;
  static constexpr uint32_t kChunks = 1;
  static constexpr uint32_t kResults = 8;
  static constexpr uint32_t operand_row(uint32_t lane, uint32_t /*chunk*/) { return lane % 16; }
  static constexpr uint32_t operand_chunk(uint32_t lane, uint32_t step, uint32_t /*chunk*/) { return step * 2 + lane / 16; }
  static constexpr uint32_t result_row(uint32_t lane, uint32_t i) { return lane / 16 * 8 + i; }
  static constexpr uint32_t result_column(uint32_t lane, uint32_t /*i*/) { return lane % 16; }
};

/// mma.m16n8k16 of BF16 on NVIDIA's warps: four lanes share rows l / 4 and l / 4 + 8. One step is four instructions, for either
/// half of the chunks and of the columns.
struct MmaLayout {
  static constexpr uint32_t kWave = 32;
  static constexpr uint32_t kSteps = 1;
  static constexpr uint32_t kChunks = 2;
  static constexpr uint32_t kResults = 8;
  static constexpr uint32_t operand_row(uint32_t lane, uint32_t chunk) { return chunk * 8 + lane / 4; }
  static constexpr uint32_t operand_chunk(uint32_t lane, uint32_t /*step*/, uint32_t /*chunk*/) { return lane % 4; }
  static constexpr uint32_t result_row(uint32_t lane, uint32_t i) { return i / 2 % 2 * 8 + lane / 4; }
  static constexpr uint32_t result_column(uint32_t lane, uint32_t i) { return i / 4 * 8 + lane % 4 * 2 + i % 2; }
};

}  // namespace foretoken::hip
