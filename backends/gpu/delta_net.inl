// Gated delta net (core/ops/gated_delta_rule.h). A state element sees the same operations in the same order whether its rows come
// one by one, in one call, or recorded and committed: s = fma(k, delta, decay * s).
#pragma once

#include "backends/gpu/delta_net_params.h"
#include "backends/gpu/numeric.inl"

namespace foretoken::gpu {
namespace {

constexpr uint32_t kConvHistory = 3;

/// The rows of a sequence in this call and its slot; no rows where the slot is not one.
struct SequenceRows {
  uint32_t first;
  uint32_t count;
  uint32_t slot;
};

FORETOKEN_DEVICE SequenceRows sequence_rows(uint64_t query_start_loc, uint64_t state_slots, uint32_t num_slots, uint32_t b) {
  const auto* starts = pointer<const int32_t>(query_start_loc);
  const int32_t first = starts[b];
  const int32_t count = starts[b + 1] - first;
  const int32_t slot = pointer<const int32_t>(state_slots)[b];
  if (count <= 0 || slot < 0 || static_cast<uint32_t>(slot) >= num_slots) return {0, 0, 0};
  return {static_cast<uint32_t>(first), static_cast<uint32_t>(count), static_cast<uint32_t>(slot)};
}

__global__ void __launch_bounds__(kConvThreads) causal_conv1d_silu(const CausalConv1dSiluParams p) {
  begin_kernel();
  const SequenceRows rows = sequence_rows(p.query_start_loc, p.state_slots, p.num_slots, blockIdx.y);
  const uint32_t channel = blockIdx.x * kConvThreads + threadIdx.x;
  if (rows.count == 0 || channel >= p.num_channels) return;
  auto* state = pointer<float>(p.conv_state) + (uint64_t{rows.slot} * p.num_channels + channel) * kConvHistory;
  const float* weight = pointer<const float>(p.weight) + uint64_t{channel} * 4;
  const float w0 = weight[0];
  const float w1 = weight[1];
  const float w2 = weight[2];
  const float w3 = weight[3];
  float oldest = state[0];
  float older = state[1];
  float old = state[2];
  with_element(p.x_is_bf16, [&](auto element) {
#pragma unroll 4
    for (uint32_t i = 0; i < rows.count; ++i) {
      const float x = element.load(p.x, (rows.first + i) * p.x_stride + channel);
      const float y = fmaf(w3, x, fmaf(w2, old, fmaf(w1, older, w0 * oldest)));
      store_float(p.out, (rows.first + i) * p.out_stride + channel, silu(y), p.out_is_bf16 != 0);
      oldest = older;
      older = old;
      old = x;
      if (p.conv_record != 0 && i < p.record_rows) {
        pointer<float>(p.conv_record)[(uint64_t{rows.slot} * p.record_rows + i) * p.num_channels + channel] = x;
      }
    }
  });
  if (p.conv_record != 0) return;
  state[0] = oldest;
  state[1] = older;
  state[2] = old;
}

/// Rows that a group prepares together: one per warp.
constexpr uint32_t kRowBlock = kStateWarps;
constexpr uint32_t kLaneKeys = kMaxKeyDim / kLanes;  // elements of a query or key, per lane

/// What the threads of a delta rule group share for a block of rows.
struct DeltaScratch {
  float query[kRowBlock][kMaxKeyDim];
  float key[kRowBlock][kMaxKeyDim];
  float value[kRowBlock][kStateColumns];
  float decay[kRowBlock];
  float beta[kRowBlock];
  float part[2][kStateWarps][kStateColumns];
};

/// `values`, which the lanes of a warp hold, at length `scale`, into memory.
FORETOKEN_DEVICE void store_normalised(const float (&values)[kLaneKeys], float scale, uint32_t key_dim, float* target) {
  float sum = 0.0F;
#pragma unroll
  for (uint32_t u = 0; u < kLaneKeys; ++u) sum = fmaf(values[u], values[u], sum);
  const float factor = scale / sqrtf(lane_sum(sum) + 1e-6F);
#pragma unroll
  for (uint32_t u = 0; u < kLaneKeys; ++u) {
    const uint32_t i = threadIdx.x % kLanes + u * kLanes;
    if (i < key_dim) target[i] = values[u] * factor;
  }
}

/// Queries and keys of rows first .. first + count at unit length, their values and gates: warp w takes row w.
FORETOKEN_DEVICE void prepare_rows(const GatedDeltaRuleParams& p, uint32_t first, uint32_t count, uint32_t head,
                                   uint32_t key_head, DeltaScratch& scratch) {
  const uint32_t w = threadIdx.x / kLanes;
  const uint32_t lane = threadIdx.x % kLanes;
  if (w < count) {
    const uint32_t row = first + w;
    const uint64_t query_at = row * p.qkv_stride + uint64_t{key_head} * p.key_dim;
    const uint64_t key_at = query_at + uint64_t{p.num_key_heads} * p.key_dim;
    float query[kLaneKeys];
    float key[kLaneKeys];
    const uint32_t column = blockIdx.x * kStateColumns + lane;
    const uint64_t value_at =
        row * p.qkv_stride + 2 * uint64_t{p.num_key_heads} * p.key_dim + uint64_t{head} * p.value_dim + column;
    with_element(p.qkv_is_bf16, [&](auto element) {
      scratch.value[w][lane] = column < p.value_dim ? element.load(p.qkv, value_at) : 0.0F;
#pragma unroll
      for (uint32_t u = 0; u < kLaneKeys; ++u) {
        const uint32_t i = lane + u * kLanes;
        query[u] = i < p.key_dim ? element.load(p.qkv, query_at + i) : 0.0F;
        key[u] = i < p.key_dim ? element.load(p.qkv, key_at + i) : 0.0F;
      }
    });
    if (lane == 0) {
      const float a = load_float(p.a, row * p.a_stride + head, p.a_is_bf16 != 0);
      const float b = load_float(p.b, row * p.b_stride + head, p.b_is_bf16 != 0);
      const float rate = expf(pointer<const float>(p.A_log)[head]);
      scratch.decay[w] = expf(-rate * softplus(a + pointer<const float>(p.dt_bias)[head]));
      scratch.beta[w] = sigmoid(b);
    }
    store_normalised(query, 1.0F / sqrtf(static_cast<float>(p.key_dim)), p.key_dim, scratch.query[w]);
    store_normalised(key, 1.0F, p.key_dim, scratch.key[w]);
  }
  __syncthreads();
}

/// Sum over the warps of each column, in order; every thread gets that of its column. Calls take turns with the two halves of
/// `part`, so one barrier is enough.
FORETOKEN_DEVICE float column_sum(float value, float (&part)[kStateWarps][kStateColumns]) {
  const uint32_t column = threadIdx.x % kStateColumns;
  part[threadIdx.x / kStateColumns][column] = value;
  __syncthreads();
  float sum = part[0][column];
#pragma unroll
  for (uint32_t warp = 1; warp < kStateWarps; ++warp) sum += part[warp][column];
  return sum;
}

/// Where a thread of the delta rule works.
struct DeltaPlace {
  uint32_t slot;
  uint32_t head;
  uint32_t key_head;
  uint32_t column;
  uint32_t first_key;  // it holds keys first_key, first_key + kStateWarps, ...
  bool exists;         // the column
};

/// One row, number w of its block: updates the state that the thread holds, and stores output and records.
template <uint32_t kHeld>
FORETOKEN_DEVICE void delta_step(const GatedDeltaRuleParams& p, const DeltaPlace& at, uint32_t row, uint32_t index, uint32_t w,
                                 DeltaScratch& scratch, float (&s)[kHeld]) {
  const float* keys = scratch.key[w];
  const float* queries = scratch.query[w];
  const float decay = scratch.decay[w];
  float seen = 0.0F;
#pragma unroll
  for (uint32_t i = 0; i < kHeld; ++i) {
    const uint32_t key = at.first_key + i * kStateWarps;
    if (key < p.key_dim) seen = fmaf(s[i], keys[key], seen);
  }
  const float value = scratch.value[w][threadIdx.x % kStateColumns];
  const float delta = scratch.beta[w] * (value - decay * column_sum(seen, scratch.part[0]));
  float answer = 0.0F;
#pragma unroll
  for (uint32_t i = 0; i < kHeld; ++i) {
    const uint32_t key = at.first_key + i * kStateWarps;
    if (key >= p.key_dim) continue;
    s[i] = fmaf(keys[key], delta, decay * s[i]);
    answer = fmaf(s[i], queries[key], answer);
  }
  answer = column_sum(answer, scratch.part[1]);
  const bool stores = at.exists && at.first_key == 0;
  if (stores) store_float(p.out, row * p.out_stride + uint64_t{at.head} * p.value_dim + at.column, answer, p.out_is_bf16 != 0);
  if (p.key_record == 0 || index >= p.record_rows) return;
  const uint64_t record = uint64_t{at.slot} * p.record_rows + index;
  if (stores) pointer<float>(p.delta_record)[(record * p.num_value_heads + at.head) * p.value_dim + at.column] = delta;
  if (blockIdx.x != 0) return;
  if (threadIdx.x == 0) pointer<float>(p.decay_record)[record * p.num_value_heads + at.head] = decay;
  // Value heads of one key head have one key: the first of them writes it.
  if (at.head % (p.num_value_heads / p.num_key_heads) == 0 && threadIdx.x < p.key_dim) {
    pointer<float>(p.key_record)[(record * p.num_key_heads + at.key_head) * p.key_dim + threadIdx.x] = keys[threadIdx.x];
  }
}

/// Thread (warp w, lane c) holds column c of keys w, w + kStateWarps, ...: kHeld of them.
template <uint32_t kHeld>
__global__ void __launch_bounds__(kStateThreads) gated_delta_rule(const GatedDeltaRuleParams p) {
  begin_kernel();
  __shared__ DeltaScratch scratch;
  const SequenceRows rows = sequence_rows(p.query_start_loc, p.state_slots, p.num_slots, blockIdx.z);
  if (rows.count == 0) return;
  const uint32_t column = blockIdx.x * kStateColumns + threadIdx.x % kStateColumns;
  const DeltaPlace at{.slot = rows.slot,
                      .head = blockIdx.y,
                      .key_head = blockIdx.y / (p.num_value_heads / p.num_key_heads),
                      .column = column,
                      .first_key = threadIdx.x / kStateColumns,
                      .exists = column < p.value_dim};
  auto* state = pointer<float>(p.state) + (uint64_t{at.slot} * p.num_value_heads + at.head) * p.key_dim * p.value_dim + column;
  float s[kHeld];
#pragma unroll
  for (uint32_t i = 0; i < kHeld; ++i) {
    const uint32_t key = at.first_key + i * kStateWarps;
    s[i] = at.exists && key < p.key_dim ? state[uint64_t{key} * p.value_dim] : 0.0F;
  }
  for (uint32_t first = 0; first < rows.count; first += kRowBlock) {
    const uint32_t count = smaller(kRowBlock, rows.count - first);
    __syncthreads();  // the block before has been used
    prepare_rows(p, rows.first + first, count, at.head, at.key_head, scratch);
    for (uint32_t w = 0; w < count; ++w) delta_step<kHeld>(p, at, rows.first + first + w, first + w, w, scratch, s);
  }
  if (p.key_record != 0 || !at.exists) return;
#pragma unroll
  for (uint32_t i = 0; i < kHeld; ++i) {
    const uint32_t key = at.first_key + i * kStateWarps;
    if (key < p.key_dim) state[uint64_t{key} * p.value_dim] = s[i];
  }
}

/// Keys of a state that a thread of recurrent_commit holds at a time.
constexpr uint32_t kCommitHeld = 16;

/// Adds `count` recorded rows to a column tile of one head's state.
FORETOKEN_DEVICE void commit_state(const RecurrentCommitParams& p, uint32_t slot, uint32_t count, uint32_t head, uint32_t tile) {
  const uint32_t column = tile * kStateColumns + threadIdx.x % kStateColumns;
  if (column >= p.value_dim) return;
  const uint32_t key_head = head / (p.num_value_heads / p.num_key_heads);
  auto* state = pointer<float>(p.state) + (uint64_t{slot} * p.num_value_heads + head) * p.key_dim * p.value_dim + column;
  for (uint32_t base = threadIdx.x / kStateColumns; base < p.key_dim; base += kCommitHeld * kStateWarps) {
    float s[kCommitHeld];
#pragma unroll
    for (uint32_t i = 0; i < kCommitHeld; ++i) {
      const uint32_t key = base + i * kStateWarps;
      s[i] = key < p.key_dim ? state[uint64_t{key} * p.value_dim] : 0.0F;
    }
#pragma unroll 2
    for (uint32_t row = 0; row < count; ++row) {
      const uint64_t record = uint64_t{slot} * p.record_rows + row;
      const float decay = pointer<const float>(p.decay_record)[record * p.num_value_heads + head];
      const float delta = pointer<const float>(p.delta_record)[(record * p.num_value_heads + head) * p.value_dim + column];
      const float* keys = pointer<const float>(p.key_record) + (record * p.num_key_heads + key_head) * p.key_dim;
#pragma unroll
      for (uint32_t i = 0; i < kCommitHeld; ++i) {
        const uint32_t key = base + i * kStateWarps;
        s[i] = fmaf(key < p.key_dim ? keys[key] : 0.0F, delta, decay * s[i]);
      }
    }
#pragma unroll
    for (uint32_t i = 0; i < kCommitHeld; ++i) {
      const uint32_t key = base + i * kStateWarps;
      if (key < p.key_dim) state[uint64_t{key} * p.value_dim] = s[i];
    }
  }
}

/// Moves `count` recorded inputs of one channel into its history.
FORETOKEN_DEVICE void commit_conv(const RecurrentCommitParams& p, uint32_t slot, uint32_t count, uint32_t channel) {
  if (channel >= p.num_channels) return;
  auto* state = pointer<float>(p.conv_state) + (uint64_t{slot} * p.num_channels + channel) * kConvHistory;
  float oldest = state[0];
  float older = state[1];
  float old = state[2];
  for (uint32_t i = 0; i < count; ++i) {
    oldest = older;
    older = old;
    old = pointer<const float>(p.conv_record)[(uint64_t{slot} * p.record_rows + i) * p.num_channels + channel];
  }
  state[0] = oldest;
  state[1] = older;
  state[2] = old;
}

__global__ void __launch_bounds__(kStateThreads) recurrent_commit(const RecurrentCommitParams p) {
  begin_kernel();
  const int32_t committed = pointer<const int32_t>(p.num_commit)[blockIdx.y];
  const int32_t slot = pointer<const int32_t>(p.state_slots)[blockIdx.y];
  if (committed <= 0 || slot < 0 || static_cast<uint32_t>(slot) >= p.num_slots) return;
  const uint32_t count = smaller(static_cast<uint32_t>(committed), p.record_rows);
  const uint32_t tiles = (p.value_dim + kStateColumns - 1) / kStateColumns;
  const uint32_t state_groups = p.num_value_heads * tiles;
  if (blockIdx.x < state_groups) {
    commit_state(p, static_cast<uint32_t>(slot), count, blockIdx.x / tiles, blockIdx.x % tiles);
  } else {
    commit_conv(p, static_cast<uint32_t>(slot), count, (blockIdx.x - state_groups) * kStateThreads + threadIdx.x);
  }
}

}  // namespace
}  // namespace foretoken::gpu
