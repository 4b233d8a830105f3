// linear and linear_silu_mul for prefill by instructions that multiply matrices: activations and weights become BF16 on their way
// into group memory, the inner scales of weights multiplied in, and sums are float32.
#pragma once

#include <type_traits>

#include "backends/gpu/kernel_entry.h"
#include "backends/gpu/weight_formats.inl"
#include "backends/hip/kernels/matrix.h"
#include "backends/hip/kernels/prefill_params.h"

namespace foretoken::hip {
namespace {

using gpu::LinearParams;
using gpu::pointer;
using gpu::WeightParams;

/// kRows x kColumns of a result; a thread brings kCopies chunks of one row of either operand into a stage.
template <uint32_t kRowsOfTile, uint32_t kColumnsOfTile>
struct Tile {
  static constexpr uint32_t kRows = kRowsOfTile;
  static constexpr uint32_t kColumns = kColumnsOfTile;
  static_assert(kRows == kColumns, "the same threads copy rows and columns");
  static constexpr uint32_t kThreadsPerRow = kPrefillThreads / kRows;
  static constexpr uint32_t kCopies = kRowChunks / kThreadsPerRow;
};
using LargeTile = Tile<kLargePrefillTile.rows, kLargePrefillTile.columns>;
using SmallTile = Tile<kSmallPrefillTile.rows, kSmallPrefillTile.columns>;

#if defined(FORETOKEN_MATRIX_INSTRUCTIONS)
/// kWords words from an address of a multiple of their size.
template <uint32_t kWords>
FORETOKEN_DEVICE void load_words(uint64_t address, uint32_t (&words)[kWords]) {
  if constexpr (kWords % 4 == 0) {
#pragma unroll
    for (uint32_t i = 0; i < kWords; i += 4) {
      const uint4 four = *pointer<const uint4>(address + i * 4);
      words[i] = four.x;
      words[i + 1] = four.y;
      words[i + 2] = four.z;
      words[i + 3] = four.w;
    }
  } else if constexpr (kWords == 2) {
    const uint2 two = *pointer<const uint2>(address);
    words[0] = two.x;
    words[1] = two.y;
  } else {
    static_assert(kWords == 1);
    words[0] = *pointer<const uint32_t>(address);
  }
}

FORETOKEN_DEVICE uint32_t pack_bf16(float low, float high) {
  return uint32_t{gpu::float_to_bf16(low)} | uint32_t{gpu::float_to_bf16(high)} << 16;
}

/// Chunks of activations.
template <uint32_t kChunks>
struct ActivationChunks {
  uint32_t words[kChunks * 4];

  /// From element `index` on.
  FORETOKEN_DEVICE void load(uint64_t x, bool is_bf16, uint64_t index) {
    if (is_bf16) {
      load_words(x + index * 2, words);
      return;
    }
#pragma unroll
    for (uint32_t i = 0; i < kChunks * 4; i += 2) {
      const float4 four = *pointer<const float4>(x + (index + i * 2) * 4);
      words[i] = pack_bf16(four.x, four.y);
      words[i + 1] = pack_bf16(four.z, four.w);
    }
  }
  [[nodiscard]] FORETOKEN_DEVICE Chunk chunk(uint32_t i) const {
    return Chunk{words[4 * i], words[4 * i + 1], words[4 * i + 2], words[4 * i + 3]};
  }
};

/// Chunks of a weight row, as codes; they lie in one group of weights that share a scale.
template <class Format, uint32_t kChunks>
struct WeightChunks {
  static constexpr bool kIsBf16 = Format::kVector == kChunkElements;
  /// An E4M3 code is a BF16 number, and so is an E2M1 code times its E4M3 scale; a code times a scale of a block is rounded.
  static constexpr bool kIsRounded = std::is_same_v<Format, gpu::Fp8BlockFormat>;
  static constexpr uint32_t kChunkWords = 4 * kChunkElements / Format::kVector;
  static_assert(Format::kPart == kChunkElements);
  uint32_t words[kChunks * kChunkWords];
  float scale;

  /// Elements from `k` on of row `n`, which begins at `codes`.
  FORETOKEN_DEVICE void load(const WeightParams& w, uint64_t scales, uint64_t codes, uint32_t n, uint32_t k) {
    load_words(codes + Format::bytes(k), words);
    scale = Format::inner_scale(w, scales, n, k);
  }
  [[nodiscard]] FORETOKEN_DEVICE Chunk chunk(uint32_t i) const {
    if constexpr (kIsBf16) {
      return Chunk{words[4 * i], words[4 * i + 1], words[4 * i + 2], words[4 * i + 3]};
    } else {
      gpu::Codes codes{};
#pragma unroll
      for (uint32_t word = 0; word < kChunkWords; ++word) codes.word[word] = words[i * kChunkWords + word];
      float values[kChunkElements];
      Format::decode(codes, 0, values);
      uint32_t packed[kChunkElements / 2];
#pragma unroll
      for (uint32_t pair = 0; pair < kChunkElements / 2; ++pair) {
        const float low = values[2 * pair] * scale;
        const float high = values[2 * pair + 1] * scale;
        packed[pair] = kIsRounded ? pack_bf16(low, high) : gpu::float_bits(low) >> 16 | (gpu::float_bits(high) & 0xffff0000U);
      }
      return Chunk{packed[0], packed[1], packed[2], packed[3]};
    }
  }
};

/// A wave's part of a tile: kDown x kAcross blocks.
template <class Tile>
struct WaveBlocks {
  static constexpr uint32_t kWaves = kPrefillThreads / Matrix::kWave;
  static constexpr uint32_t kWavesAcross = Matrix::kWave == 64 ? 2 : Tile::kColumns / (2 * kBlock);
  static constexpr uint32_t kAcross = Tile::kColumns / kWavesAcross / kBlock;
  static constexpr uint32_t kDown = Tile::kRows / (kWaves / kWavesAcross) / kBlock;
  static_assert(kAcross % 2 == 0, "a wave has gate and up of a column");

  float sums[kDown][kAcross][Matrix::kResults];

  FORETOKEN_DEVICE static uint32_t first_row() { return threadIdx.x / Matrix::kWave / kWavesAcross * kDown * kBlock; }
  FORETOKEN_DEVICE static uint32_t first_column() { return threadIdx.x / Matrix::kWave % kWavesAcross * kAcross * kBlock; }

  /// Adds the products of a stage: rows first, then columns.
  FORETOKEN_DEVICE void multiply(const Chunk* stage) {
    const uint32_t lane = threadIdx.x % Matrix::kWave;
#pragma unroll
    for (uint32_t step = 0; step < Matrix::kSteps; ++step) {
      MatrixOperand columns[kAcross];
#pragma unroll
      for (uint32_t j = 0; j < kAcross; ++j) columns[j] = operand(stage, Tile::kRows + first_column() + j * kBlock, lane, step);
#pragma unroll
      for (uint32_t i = 0; i < kDown; ++i) {
        const MatrixOperand row = operand(stage, first_row() + i * kBlock, lane, step);
#pragma unroll
        for (uint32_t j = 0; j < kAcross; ++j) multiply_step(sums[i][j], row, columns[j]);
      }
    }
  }

 private:
  FORETOKEN_DEVICE static MatrixOperand operand(const Chunk* stage, uint32_t first, uint32_t lane, uint32_t step) {
    MatrixOperand operand;
#pragma unroll
    for (uint32_t c = 0; c < Matrix::kChunks; ++c) {
      const uint32_t row = first + Matrix::operand_row(lane, c);
      operand.chunk[c] = stage[chunk_place(row, Matrix::operand_chunk(lane, step, c))];
    }
    return operand;
  }
};

/// Adds up the products of a tile of p.x and of p.weight; gated: of p.weight and p.second, kBlock columns of either in turn.
template <class Format, class Tile, bool kGated>
FORETOKEN_DEVICE void multiply_tile(const LinearParams& p, WaveBlocks<Tile>& blocks) {
  __shared__ Chunk stages[2][(Tile::kRows + Tile::kColumns) * kRowChunks];
  const uint32_t place = threadIdx.x / Tile::kThreadsPerRow;
  const uint32_t first_chunk = threadIdx.x % Tile::kThreadsPerRow * Tile::kCopies;
  const uint64_t x_row = gpu::smaller(blockIdx.x * Tile::kRows + place, p.num_rows - 1) * p.x_stride;
  const bool is_up = kGated && place / kBlock % 2 != 0;
  const uint32_t column = kGated ? blockIdx.y * (Tile::kColumns / 2) + place / (2 * kBlock) * kBlock + place % kBlock
                                 : blockIdx.y * Tile::kColumns + place;
  const uint32_t n = gpu::smaller(column, p.out_features - 1);
  const uint64_t codes = (is_up ? p.second.codes : p.weight.codes) + Format::bytes(uint64_t{n} * p.in_features);
  const uint64_t scales = is_up ? p.second.scale : p.weight.scale;

  ActivationChunks<Tile::kCopies> x;
  WeightChunks<Format, Tile::kCopies> w;
  const auto load = [&](uint32_t stage) {
    const uint32_t k = stage * kTileDepth + first_chunk * kChunkElements;
    x.load(p.x, p.x_is_bf16 != 0, x_row + k);
    w.load(p.weight, scales, codes, n, k);
  };
  const auto store = [&](uint32_t stage) {
#pragma unroll
    for (uint32_t i = 0; i < Tile::kCopies; ++i) {
      stages[stage % 2][chunk_place(place, first_chunk + i)] = x.chunk(i);
      stages[stage % 2][chunk_place(Tile::kRows + place, first_chunk + i)] = w.chunk(i);
    }
    __syncthreads();
  };
  const uint32_t num_stages = p.in_features / kTileDepth;
  load(0);
  store(0);
#pragma unroll 1
  for (uint32_t stage = 0; stage + 1 < num_stages; ++stage) {
    load(stage + 1);  // on its way while this one is multiplied
    blocks.multiply(stages[stage % 2]);
    store(stage + 1);
  }
  blocks.multiply(stages[(num_stages - 1) % 2]);
}

/// Stores a tile's results, those that exist.
template <class Format, class Tile, bool kGated>
FORETOKEN_DEVICE void store_tile(const LinearParams& p, const WaveBlocks<Tile>& blocks) {
  constexpr uint32_t kProjections = kGated ? 2 : 1;
  const uint32_t lane = threadIdx.x % Matrix::kWave;
  const uint32_t first_row = blockIdx.x * Tile::kRows + blocks.first_row();
  const uint32_t first_column = (blockIdx.y * Tile::kColumns + blocks.first_column()) / kProjections;
#pragma unroll
  for (uint32_t j = 0; j < WaveBlocks<Tile>::kAcross; j += kProjections) {
#pragma unroll
    for (uint32_t r = 0; r < Matrix::kResults; ++r) {
      const uint32_t column = first_column + j / kProjections * kBlock + Matrix::result_column(lane, r);
      if (column >= p.out_features) continue;
      const float scale = Format::outer_scale(p.weight, p.weight.scale, p.weight.global_scale, column);
      float up_scale = 1.0F;
      if constexpr (kGated) up_scale = Format::outer_scale(p.weight, p.second.scale, p.second.global_scale, column);
#pragma unroll
      for (uint32_t i = 0; i < WaveBlocks<Tile>::kDown; ++i) {
        const uint32_t row = first_row + i * kBlock + Matrix::result_row(lane, r);
        if (row >= p.num_rows) continue;
        float result = blocks.sums[i][j][r] * scale;
        if constexpr (kGated) result = gpu::silu(result) * (blocks.sums[i][j + 1][r] * up_scale);
        gpu::store_float(p.out, row * p.out_stride + column, result, p.out_is_bf16 != 0);
      }
    }
  }
}
#endif

/// grid: (tiles of rows, tiles of columns). Never launched where there are no such instructions.
template <class Format, class Tile, bool kGated>
__global__ void __launch_bounds__(kPrefillThreads) prefill([[maybe_unused]] const LinearParams p) {
#if defined(FORETOKEN_MATRIX_INSTRUCTIONS)
  WaveBlocks<Tile> blocks{};
  multiply_tile<Format, Tile, kGated>(p, blocks);
  store_tile<Format, Tile, kGated>(p, blocks);
#endif
}

}  // namespace
}  // namespace foretoken::hip
