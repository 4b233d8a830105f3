// What the kernels of the gated delta net share: the rows of a sequence, the commit, normalised keys and queries, the gated norm.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "backends/cpu/kernels/delta_net_params.h"
#include "backends/cpu/kernels/norm_rows.h"

namespace foretoken::cpu::FORETOKEN_CPU_ISA {

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

/// Recorded rows that sequence b commits.
FORETOKEN_SIMD_INLINE size_t commit_count(const int32_t* num_commit, size_t record_rows, size_t b) {
  if (num_commit == nullptr || num_commit[b] <= 0) return 0;
  const auto count = static_cast<size_t>(num_commit[b]);
  return count < record_rows ? count : record_rows;
}

/// Adds kRows recorded rows, from `first` on, of a slot to columns [column, column + width) of a head's state.
template <size_t kRows>
void commit_rows(const GatedDeltaRuleParams& p, size_t slot, size_t first, size_t head, size_t column, size_t width) {
  const float* keys[kRows];
  const float* deltas[kRows];
  F32x16 decays[kRows];
#pragma GCC unroll 4
  for (size_t row = 0; row < kRows; ++row) {
    const size_t record = (slot * p.record_rows + first + row) * p.num_value_heads + head;
    keys[row] = p.key_record + record * p.key_dim;
    deltas[row] = p.delta_record + record * p.value_dim + column;
    decays[row] = F32x16::broadcast(p.decay_record[record]);
  }
  float* state = p.state + (slot * p.num_value_heads + head) * p.key_dim * p.value_dim + column;
  const size_t stride = p.value_dim;
  for (size_t i = 0, end = p.key_dim; i < end; ++i, state += stride) {
    for_each_vector(width, [&](size_t c, size_t lanes) {
      F32x16 s = load_lanes(state + c, lanes);
#pragma GCC unroll 4
      for (size_t row = 0; row < kRows; ++row) {
        s = fma(F32x16::broadcast(keys[row][i]), load_lanes(deltas[row] + c, lanes), decays[row] * s);
      }
      store_lanes(s, state + c, lanes);
    });
  }
}

/// The same for the first `count` recorded rows, which come one after another.
inline void commit_columns(const GatedDeltaRuleParams& p, size_t slot, size_t count, size_t head, size_t column, size_t width) {
  constexpr size_t kMost = 4;
  size_t row = 0;
  for (; row + kMost <= count; row += kMost) commit_rows<kMost>(p, slot, row, head, column, width);
  if (count - row == 3) commit_rows<3>(p, slot, row, head, column, width);
  if (count - row == 2) commit_rows<2>(p, slot, row, head, column, width);
  if (count - row == 1) commit_rows<1>(p, slot, row, head, column, width);
}

/// Outputs of a head in `count` rows from `row` on, normed and gated in place; left alone where the call has no norm.
inline void gate_outputs(const GatedDeltaRuleParams& p, size_t row, size_t count, size_t head) {
  if (p.z == nullptr) return;
  for (size_t end = row + count; row < end; ++row) {
    float* out = p.out + row * p.out_stride + head * p.value_dim;
    const float* z = p.z + row * p.z_stride + head * p.value_dim;
    const F32x16 scale =
        F32x16::broadcast(inverse_rms(p.value_dim, p.eps, [&](size_t i, size_t lanes) { return load_lanes(out + i, lanes); }));
    for_each_vector(p.value_dim, [&](size_t i, size_t lanes) {
      const F32x16 normed = load_lanes(p.norm + i, lanes) * (load_lanes(out + i, lanes) * scale);
      store_lanes(normed * silu(load_lanes(z + i, lanes)), out + i, lanes);
    });
  }
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
