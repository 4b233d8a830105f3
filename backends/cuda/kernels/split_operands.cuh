// Operands of products on tensor cores that are the sum of two BF16 numbers, of which the product of the two lower ones is left
// out: good to about 2^-16.
#pragma once

#include "backends/cuda/kernels/tensor_cores.cuh"

namespace foretoken::cuda {
namespace {

/// Two numbers as upper and lower parts, packed.
struct SplitPair {
  uint32_t upper;
  uint32_t lower;

  __device__ __forceinline__ SplitPair(float first, float second) {
    upper = pack_bf16(first, second);
    lower = pack_bf16(first - gpu::bits_to_float(upper << 16), second - gpu::bits_to_float(upper & 0xffff0000U));
  }
  /// To element `index`, which is even, of either part.
  __device__ __forceinline__ void store(uint16_t* upper_part, uint16_t* lower_part, uint32_t index) const {
    *reinterpret_cast<uint32_t*>(upper_part + index) = upper;
    *reinterpret_cast<uint32_t*>(lower_part + index) = lower;
  }
};

/// Four blocks of an operand, in upper and lower parts.
struct SplitBlocks {
  uint32_t upper[4];
  uint32_t lower[4];
};

/// This lane's place in a 16 x 16 part of an operand whose rows are `stride` elements apart. `kRowsFirst`: blocks follow each
/// other down, then across, as the first operand of a product has them; else across, then down.
template <bool kRowsFirst>
__device__ __forceinline__ uint32_t block_place(uint32_t row, uint32_t column, uint32_t stride) {
  const uint32_t lane = threadIdx.x % gpu::kLanes;
  const uint32_t eighth = lane / 8;
  const uint32_t down = kRowsFirst ? eighth % 2 : eighth / 2;
  const uint32_t across = kRowsFirst ? eighth / 2 : eighth % 2;
  return (row + lane % 8 + down * 8) * stride + column + across * 8;
}

/// The part at (row, column) of `operand` as it lies there.
template <bool kRowsFirst, uint32_t kSize>
__device__ __forceinline__ SplitBlocks split_blocks(const uint16_t (&operand)[2][kSize], uint32_t row, uint32_t column,
                                                    uint32_t stride) {
  const uint32_t place = block_place<kRowsFirst>(row, column, stride);
  SplitBlocks blocks;
  load_blocks(blocks.upper, shared_address(operand[0] + place));
  load_blocks(blocks.lower, shared_address(operand[1] + place));
  return blocks;
}

/// The same, transposed.
template <bool kRowsFirst, uint32_t kSize>
__device__ __forceinline__ SplitBlocks split_blocks_transposed(const uint16_t (&operand)[2][kSize], uint32_t row, uint32_t column,
                                                               uint32_t stride) {
  const uint32_t place = block_place<kRowsFirst>(row, column, stride);
  SplitBlocks blocks;
  load_blocks_transposed(blocks.upper, shared_address(operand[0] + place));
  load_blocks_transposed(blocks.lower, shared_address(operand[1] + place));
  return blocks;
}

/// sums += a b for the eight columns `half` (0, 1) of b's sixteen; the smaller products first.
__device__ __forceinline__ void multiply_split(float (&sums)[4], const SplitBlocks& a, const SplitBlocks& b, uint32_t half) {
  multiply(sums, a.lower, b.upper[2 * half], b.upper[2 * half + 1]);
  multiply(sums, a.upper, b.lower[2 * half], b.lower[2 * half + 1]);
  multiply(sums, a.upper, b.upper[2 * half], b.upper[2 * half + 1]);
}

}  // namespace
}  // namespace foretoken::cuda
