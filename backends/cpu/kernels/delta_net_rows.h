// What the kernels of the gated delta net share: the rows of a sequence, partial vectors, normalised keys and queries.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "backends/cpu/kernels/simd.h"

namespace foretoken::cpu::FORETOKEN_CPU_ISA {

FORETOKEN_SIMD_INLINE F32x16 load_lanes(const float* p, size_t count) {
  return count == kLanes ? F32x16::load(p) : F32x16::load_partial(p, count);
}

FORETOKEN_SIMD_INLINE void store_lanes(F32x16 a, float* p, size_t count) {
  if (count == kLanes) {
    a.store(p);
  } else {
    a.store_partial(p, count);
  }
}

/// The rows of sequence b in this call and its slot; no rows where the slot is not one.
struct SequenceRows {
  size_t first;
  size_t count;
  size_t slot;
};

FORETOKEN_SIMD_INLINE SequenceRows sequence_rows(const int32_t* query_start_loc, const int32_t* slots, size_t num_slots,
                                                 size_t b) {
  const int32_t first = query_start_loc[b];
  const int32_t count = query_start_loc[b + 1] - first;
  const int32_t slot = slots[b];
  if (count <= 0 || slot < 0 || static_cast<size_t>(slot) >= num_slots) return {0, 0, 0};
  return {static_cast<size_t>(first), static_cast<size_t>(count), static_cast<size_t>(slot)};
}

/// out = x / sqrt(sum(x^2) + 1e-6) * scale
FORETOKEN_SIMD_INLINE void l2_normalise(const float* x, float scale, float* out, size_t n) {
  F32x16 even = F32x16::zero(), odd = F32x16::zero();
  for (size_t i = 0; i < n; i += kLanes) {
    const F32x16 v = load_lanes(x + i, n - i < kLanes ? n - i : kLanes);
    F32x16& sum = i / kLanes % 2 == 0 ? even : odd;
    sum = fma(v, v, sum);
  }
  const F32x16 factor = F32x16::broadcast(scale / std::sqrt(reduce_add(even + odd) + 1e-6F));
  for (size_t i = 0; i < n; i += kLanes) {
    const size_t count = n - i < kLanes ? n - i : kLanes;
    store_lanes(load_lanes(x + i, count) * factor, out + i, count);
  }
}

}  // namespace foretoken::cpu::FORETOKEN_CPU_ISA
