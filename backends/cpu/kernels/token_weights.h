// Rows of processed logits as kernels walk over them: their weights, their order, the best of them, and draws.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "backends/cpu/kernels/simd.h"
#include "core/ops/sampling_rules.h"

namespace foretoken::cpu::FORETOKEN_CPU_ISA {

/// Weights that are computed together.
inline constexpr size_t kWeightBlock = 4 * kLanes;

/// Weights of `count` (at most kWeightBlock) logits, the same as sampling_weight of each; those past `count` are not specified.
/// Not inlined: on its own the compiler makes vectors of it.
[[gnu::noinline]] inline void block_weights(const float* x, size_t count, uint64_t* weights) {
  float clamped[kWeightBlock] = {};
  const F32x16 low = F32x16::broadcast(kLowestWeighted);
  for (size_t i = 0; i < count; i += kLanes) {
    const size_t lanes = count - i < kLanes ? count - i : kLanes;
    const F32x16 values = lanes == kLanes ? F32x16::load(x + i) : F32x16::load_partial(x + i, lanes);
    min(max(values, low), F32x16::zero()).store(clamped + i);
  }
  for (size_t i = 0; i < kWeightBlock; ++i) weights[i] = clamped_weight(clamped[i]);
}

/// Calls use(first, count, weights) for blocks of the row, in order.
template <class Use>
FORETOKEN_SIMD_INLINE void for_each_block(const float* x, size_t n, const Use& use) {
  uint64_t weights[kWeightBlock];
  for (size_t first = 0; first < n; first += kWeightBlock) {
    const size_t count = n - first < kWeightBlock ? n - first : kWeightBlock;
    block_weights(x + first, count, weights);
    use(first, count, weights);
  }
}

FORETOKEN_SIMD_INLINE uint64_t sum_weights(const float* x, size_t n) {
  uint64_t sum = 0;
  for_each_block(x, n, [&sum](size_t, size_t count, const uint64_t* weights) {
    for (size_t i = 0; i < count; ++i) sum += weights[i];
  });
  return sum;
}

/// The place of a logit of at most 0 in the order of falling logits: smaller is earlier. Of 31 bits.
FORETOKEN_SIMD_INLINE uint32_t order_key(float x) {
  uint32_t bits = 0;
  std::memcpy(&bits, &x, sizeof(bits));
  return bits & 0x7fffffffU;
}

/// The logit of a key: -0.0 for 0, which equals it.
FORETOKEN_SIMD_INLINE float logit_of_key(uint32_t key) {
  const uint32_t bits = key | 0x80000000U;
  float x = 0.0F;
  std::memcpy(&x, &bits, sizeof(x));
  return x;
}

/// Where the first keys of the order come to a given amount.
struct OrderCut {
  uint32_t key;      // with the tokens of this key they reach it,
  uint64_t missing;  // to which those before lack so much (at least 1)
};

/// The cut at which the amounts of the tokens reach need(sum of all amounts), at least 1 and at most that sum, by digits of the
/// key. amounts(first, count, out) gives those of a block.
template <class Amounts, class Need>
FORETOKEN_SIMD_INLINE OrderCut cut_of_order(const float* x, size_t n, const Amounts& amounts, const Need& need) {
  constexpr uint32_t kDigits[] = {20, 9, 0};
  constexpr size_t kBins = 2048;
  uint32_t key = 0;
  uint64_t missing = 0;
  uint32_t decided = 31;  // bits below are open
  for (const uint32_t shift : kDigits) {
    uint64_t bins[kBins] = {};
    uint64_t block[kWeightBlock];
    for (size_t first = 0; first < n; first += kWeightBlock) {
      const size_t count = n - first < kWeightBlock ? n - first : kWeightBlock;
      uint32_t keys[kWeightBlock];
      uint32_t num_open = 0;
      for (size_t i = 0; i < count; ++i) {
        keys[i] = order_key(x[first + i]) - key;
        num_open += keys[i] >> decided == 0 ? 1U : 0U;
      }
      if (num_open == 0) continue;
      amounts(first, count, block);
      for (size_t i = 0; i < count; ++i) {
        if (keys[i] >> decided == 0) bins[keys[i] >> shift] += block[i];
      }
    }
    if (decided == 31) {
      uint64_t sum = 0;
      for (const uint64_t amount : bins) sum += amount;
      missing = need(sum);
    }
    uint32_t bin = 0;
    while (bins[bin] < missing) missing -= bins[bin++];
    key += bin << shift;
    decided = shift;
  }
  return {.key = key, .missing = missing};
}

/// The first index with which the sum of the weights passes `number`, below that sum. change(first, count, weights) may alter
/// those of a block.
template <class Change>
FORETOKEN_SIMD_INLINE size_t draw_from_row(const float* x, size_t n, uint64_t number, const Change& change) {
  uint64_t weights[kWeightBlock];
  for (size_t first = 0; first < n; first += kWeightBlock) {
    const size_t count = n - first < kWeightBlock ? n - first : kWeightBlock;
    block_weights(x + first, count, weights);
    change(first, count, weights);
    uint64_t sum = 0;
    for (size_t i = 0; i < count; ++i) sum += weights[i];
    if (sum <= number) {
      number -= sum;
      continue;
    }
    size_t i = 0;
    while (weights[i] <= number) number -= weights[i++];
    return first + i;
  }
  return 0;
}

}  // namespace foretoken::cpu::FORETOKEN_CPU_ISA
