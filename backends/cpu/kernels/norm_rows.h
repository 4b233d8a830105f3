// What kernels share that work on rows of any length: partial vectors, and the scale of an RMS norm.
#pragma once

#include <cmath>
#include <cstddef>

#include "backends/cpu/kernels/simd.h"

namespace foretoken::cpu::FORETOKEN_CPU_ISA {

FORETOKEN_SIMD_INLINE size_t lanes_left(size_t n, size_t i) { return n - i < kLanes ? n - i : kLanes; }

/// Calls body(i, whole): whole vectors first, then one of the elements that are left.
template <class Body>
FORETOKEN_SIMD_INLINE void for_each_vector(size_t n, const Body& body) {
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) body(i, kLanes);
  if (i < n) body(i, n - i);
}

FORETOKEN_SIMD_INLINE F32x16 load_lanes(const float* p, size_t count) {
  return count == kLanes ? F32x16::load(p) : F32x16::load_partial(p, count);
}

/// The same from BF16.
FORETOKEN_SIMD_INLINE F32x16 load_lanes(const uint16_t* p, size_t count) {
  return count == kLanes ? F32x16::load(p) : load_partial_bf16(p, count);
}

FORETOKEN_SIMD_INLINE void store_lanes(F32x16 a, float* p, size_t count) {
  if (count == kLanes) {
    a.store(p);
  } else {
    a.store_partial(p, count);
  }
}

/// Partial sums of inverse_rms.
inline constexpr size_t kNormSums = 4;

/// 1 / sqrt(mean(x^2) + eps), where load(i, count) gives elements i .. i + count of x. Four sums, vector i going to sum i % 4.
template <class Load>
FORETOKEN_SIMD_INLINE float inverse_rms(size_t n, float eps, const Load& load) {
  F32x16 sums[kNormSums];
  for (F32x16& sum : sums) sum = F32x16::zero();
  size_t i = 0;
  for (; i + kNormSums * kLanes <= n; i += kNormSums * kLanes) {
    for (size_t u = 0; u < kNormSums; ++u) {
      const F32x16 x = load(i + u * kLanes, kLanes);
      sums[u] = fma(x, x, sums[u]);
    }
  }
  for (size_t u = 0; i < n; i += kLanes, ++u) {
    const F32x16 x = load(i, lanes_left(n, i));
    sums[u] = fma(x, x, sums[u]);
  }
  const float total = reduce_add((sums[0] + sums[1]) + (sums[2] + sums[3]));
  return 1.0F / std::sqrt(total / static_cast<float>(n) + eps);
}

}  // namespace foretoken::cpu::FORETOKEN_CPU_ISA
