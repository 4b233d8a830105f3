// The best of a row of logits.
#pragma once

#include <cstddef>

#include "backends/cpu/kernels/simd.h"

namespace foretoken::cpu::FORETOKEN_CPU_ISA {

/// The first index in [begin, end) whose value equals `wanted`; `end` when there is none.
FORETOKEN_SIMD_INLINE size_t find_equal(const float* x, size_t begin, size_t end, float wanted) {
  size_t i = begin;
  while (i < end && x[i] != wanted) ++i;
  return i;
}

/// The first index of the largest; NaN never wins, and a row of NaN gives 0. Block by block: only a block whose maximum beats all
/// before it is searched, once, at the end. max(x, best) drops a NaN x.
FORETOKEN_SIMD_INLINE size_t argmax_row(const float* x, size_t n) {
  constexpr size_t kBlock = 1024;
  constexpr float kInfinity = __builtin_inff();
  float best = -kInfinity;
  size_t best_block = n;
  for (size_t block = 0; block < n; block += kBlock) {
    const size_t end = n - block < kBlock ? n : block + kBlock;
    F32x16 lanes[4];
    for (F32x16& lane : lanes) lane = F32x16::broadcast(-kInfinity);
    size_t i = block;
    for (; i + 4 * kLanes <= end; i += 4 * kLanes) {
      for (size_t u = 0; u < 4; ++u) lanes[u] = max(F32x16::load(x + i + u * kLanes), lanes[u]);
    }
    float block_max = reduce_max(max(max(lanes[0], lanes[1]), max(lanes[2], lanes[3])));
    for (; i < end; ++i) block_max = x[i] > block_max ? x[i] : block_max;
    if (block_max > best) {
      best = block_max;
      best_block = block;
    }
  }
  const size_t found = find_equal(x, best_block == n ? 0 : best_block, n, best);
  return found == n ? 0 : found;
}

}  // namespace foretoken::cpu::FORETOKEN_CPU_ISA
