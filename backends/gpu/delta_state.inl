// The state of a head in the registers of work groups (gated_delta_rule), and what is read and written in fours with it.
#pragma once

#include "backends/gpu/delta_net.inl"

namespace foretoken::gpu {
namespace {

/// What a thread holds: four columns of the state, and kThreadKeys keys of them.
constexpr uint32_t kThreadKeys = 8;
constexpr uint32_t kQuad = kStateQuad;
constexpr uint32_t kQuadLanes = kStateColumns / kQuad;
constexpr uint32_t kWarpKeys = kThreadKeys * kLanes / kQuadLanes;
static_assert(kKeyWarps * kWarpKeys == kMaxStateDim && kQuadLanes * kQuad == kStateColumns);

/// Heads of any size up to the largest, of F32 or BF16, wherever they lie.
struct AnyHeads {
  static constexpr bool kWhole = false;
  FORETOKEN_DEVICE static uint32_t key_dim(const GatedDeltaRuleParams& p) { return p.key_dim; }
  FORETOKEN_DEVICE static uint32_t value_dim(const GatedDeltaRuleParams& p) { return p.value_dim; }
};
/// Heads of the largest size, of F32, aligned for reading four elements at a time.
struct WholeHeads {
  static constexpr bool kWhole = true;
  FORETOKEN_DEVICE static uint32_t key_dim(const GatedDeltaRuleParams&) { return kMaxStateDim; }
  FORETOKEN_DEVICE static uint32_t value_dim(const GatedDeltaRuleParams&) { return kMaxStateDim; }
};

/// Where a thread works.
struct DeltaPlace {
  uint32_t slot;
  uint32_t head;
  uint32_t key_head;
  uint32_t first_column;  // of the group, in the head
  uint32_t column;        // of the thread's four, in the group
  uint32_t key_warp;
  uint32_t first_key;  // of the thread's
};

template <uint32_t kBlocks>
FORETOKEN_DEVICE DeltaPlace delta_place(const GatedDeltaRuleParams& p, uint32_t slot, uint32_t rank) {
  const uint32_t warp = threadIdx.x / kLanes;
  const uint32_t lane = threadIdx.x % kLanes;
  return {.slot = slot,
          .head = blockIdx.y,
          .key_head = blockIdx.y / (p.num_value_heads / p.num_key_heads),
          .first_column = rank * kBlocks * kStateColumns,
          .column = warp / kKeyWarps * kStateColumns + lane % kQuadLanes * kQuad,
          .key_warp = warp % kKeyWarps,
          .first_key = warp % kKeyWarps * kWarpKeys + lane / kQuadLanes * kThreadKeys};
}

/// Elements index .. index + 4, of which those below `end` exist; the rest is 0.
template <class Heads>
FORETOKEN_DEVICE float4 load_quad(uint64_t base, uint64_t index, uint32_t first, uint32_t end, uint32_t is_bf16 = 0) {
  if constexpr (Heads::kWhole) {
    return *reinterpret_cast<const float4*>(pointer<const float>(base) + index);
  } else {
    float values[kQuad];
#pragma unroll
    for (uint32_t i = 0; i < kQuad; ++i) values[i] = first + i < end ? load_float(base, index + i, is_bf16 != 0) : 0.0F;
    return {values[0], values[1], values[2], values[3]};
  }
}

/// Stores those of four elements that exist.
template <class Heads>
FORETOKEN_DEVICE void store_quad(uint64_t base, uint64_t index, float4 quad, uint32_t first, uint32_t end) {
  float* target = pointer<float>(base) + index;
  if constexpr (Heads::kWhole) {
    *reinterpret_cast<float4*>(target) = quad;
  } else {
    if (first < end) target[0] = quad.x;
    if (first + 1 < end) target[1] = quad.y;
    if (first + 2 < end) target[2] = quad.z;
    if (first + 3 < end) target[3] = quad.w;
  }
}

/// The thread's part of a state.
template <class Heads>
struct HeldState {
  float4 s[kThreadKeys];

  FORETOKEN_DEVICE static uint64_t offset(const GatedDeltaRuleParams& p, const DeltaPlace& at, uint32_t key) {
    const uint64_t head = uint64_t{at.slot} * p.num_value_heads + at.head;
    return (head * Heads::key_dim(p) + at.first_key + key) * Heads::value_dim(p) + at.first_column + at.column;
  }
  /// One past the last column of a key that exists.
  FORETOKEN_DEVICE static uint32_t end(const GatedDeltaRuleParams& p, const DeltaPlace& at, uint32_t key) {
    return at.first_key + key < Heads::key_dim(p) ? Heads::value_dim(p) : 0;
  }
  FORETOKEN_DEVICE void load(const GatedDeltaRuleParams& p, const DeltaPlace& at) {
#pragma unroll
    for (uint32_t i = 0; i < kThreadKeys; ++i) {
      s[i] = load_quad<Heads>(p.state, offset(p, at, i), at.first_column + at.column, end(p, at, i));
    }
  }
  FORETOKEN_DEVICE void store(const GatedDeltaRuleParams& p, const DeltaPlace& at) const {
#pragma unroll
    for (uint32_t i = 0; i < kThreadKeys; ++i) {
      store_quad<Heads>(p.state, offset(p, at, i), s[i], at.first_column + at.column, end(p, at, i));
    }
  }
  /// s = decay * s + key delta^T; `keys` are those of the thread.
  FORETOKEN_DEVICE void update(const float (&keys)[kThreadKeys], float4 delta, float decay) {
#pragma unroll
    for (uint32_t i = 0; i < kThreadKeys; ++i) {
      s[i].x = fmaf(keys[i], delta.x, decay * s[i].x);
      s[i].y = fmaf(keys[i], delta.y, decay * s[i].y);
      s[i].z = fmaf(keys[i], delta.z, decay * s[i].z);
      s[i].w = fmaf(keys[i], delta.w, decay * s[i].w);
    }
  }
  /// The thread's terms of s^T x.
  FORETOKEN_DEVICE float4 transposed_times(const float (&x)[kThreadKeys]) const {
    float4 sum{0.0F, 0.0F, 0.0F, 0.0F};
#pragma unroll
    for (uint32_t i = 0; i < kThreadKeys; ++i) {
      sum.x = fmaf(s[i].x, x[i], sum.x);
      sum.y = fmaf(s[i].y, x[i], sum.y);
      sum.z = fmaf(s[i].z, x[i], sum.z);
      sum.w = fmaf(s[i].w, x[i], sum.w);
    }
    return sum;
  }
};

/// Brings the group's part of the state near, and the records that it commits. They may still change: nothing is read.
template <class Heads>
FORETOKEN_DEVICE void prefetch_head(const GatedDeltaRuleParams& p, const DeltaPlace& at, uint32_t committed) {
  // The eight lanes of a row of 128 bytes take one key each.
  const uint32_t key = threadIdx.x % kQuadLanes;
  if (at.first_column + at.column < HeldState<Heads>::end(p, at, key)) {
    prefetch(pointer<const float>(p.state) + HeldState<Heads>::offset(p, at, key));
  }
  const uint32_t row = threadIdx.x / kQuadLanes;
  if (row >= committed) return;
  const uint64_t record = (uint64_t{at.slot} * p.record_rows + row) * p.num_value_heads + at.head;
  if (key * kLanes < Heads::key_dim(p)) prefetch(pointer<const float>(p.key_record) + record * Heads::key_dim(p) + key * kLanes);
  const uint32_t column = at.first_column + (key - kQuadLanes / 2) * kLanes;
  if (key >= kQuadLanes / 2 && column < Heads::value_dim(p)) {
    prefetch(pointer<const float>(p.delta_record) + record * Heads::value_dim(p) + column);
  }
}

FORETOKEN_DEVICE void load_keys(const float* row, float (&keys)[kThreadKeys]) {
#pragma unroll
  for (uint32_t i = 0; i < kThreadKeys; i += kQuad) {
    const float4 quad = *reinterpret_cast<const float4*>(row + i);
    keys[i] = quad.x;
    keys[i + 1] = quad.y;
    keys[i + 2] = quad.z;
    keys[i + 3] = quad.w;
  }
}

/// Sums over the lanes of a warp that hold the same columns; each of them gets one of its four.
FORETOKEN_DEVICE float sum_of_column(float4 v) {
  const bool upper = (threadIdx.x & 8) != 0;
  const bool last = (threadIdx.x & 16) != 0;
  const float first_sum = (upper ? v.z : v.x) + lane_xor(upper ? v.x : v.z, 8);
  const float second_sum = (upper ? v.w : v.y) + lane_xor(upper ? v.y : v.w, 8);
  return (last ? second_sum : first_sum) + lane_xor(last ? first_sum : second_sum, 16);
}

/// The column, in the group, whose sum `sum_of_column` gives to this thread.
FORETOKEN_DEVICE uint32_t column_of_sum(const DeltaPlace& at) {
  return at.column + ((threadIdx.x & 8) != 0 ? 2 : 0) + ((threadIdx.x & 16) != 0 ? 1 : 0);
}

}  // namespace
}  // namespace foretoken::gpu
