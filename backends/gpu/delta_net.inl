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
#pragma unroll 4
  for (uint32_t i = 0; i < rows.count; ++i) {
    const float x = load_float(p.x, (rows.first + i) * p.x_stride + channel, p.x_is_bf16 != 0);
    const float y = fmaf(w3, x, fmaf(w2, old, fmaf(w1, older, w0 * oldest)));
    store_float(p.out, (rows.first + i) * p.out_stride + channel, silu(y), p.out_is_bf16 != 0);
    oldest = older;
    older = old;
    old = x;
    if (p.conv_record != 0 && i < p.record_rows) {
      pointer<float>(p.conv_record)[(uint64_t{rows.slot} * p.record_rows + i) * p.num_channels + channel] = x;
    }
  }
  if (p.conv_record != 0) return;
  state[0] = oldest;
  state[1] = older;
  state[2] = old;
}

/// What the threads of a delta rule group share for one row.
struct DeltaScratch {
  float query[kMaxKeyDim];
  float key[kMaxKeyDim];
  float part[kStateWarps][kStateColumns];
  float norm[2];  // of query and key: what they are multiplied by
  float decay;
  float beta;
};

/// Query and key of a row at unit length, and its gates. Warp 0 takes the query, warp 1 the key, thread 64 the gates.
FORETOKEN_DEVICE void prepare_row(const GatedDeltaRuleParams& p, uint32_t row, uint32_t head, uint32_t key_head,
                                  DeltaScratch& scratch) {
  const uint32_t warp = threadIdx.x / kLanes;
  const uint32_t lane = threadIdx.x % kLanes;
  if (warp < 2) {
    const uint64_t source = row * p.qkv_stride + uint64_t{warp * p.num_key_heads + key_head} * p.key_dim;
    float* target = warp == 0 ? scratch.query : scratch.key;
    float sum = 0.0F;
    for (uint32_t i = lane; i < p.key_dim; i += kLanes) {
      const float value = load_float(p.qkv, source + i, p.qkv_is_bf16 != 0);
      target[i] = value;
      sum = fmaf(value, value, sum);
    }
    sum = lane_sum(sum);
    const float scale = warp == 0 ? 1.0F / sqrtf(static_cast<float>(p.key_dim)) : 1.0F;
    const float factor = scale / sqrtf(sum + 1e-6F);
    for (uint32_t i = lane; i < p.key_dim; i += kLanes) target[i] *= factor;
  } else if (threadIdx.x == 2 * kLanes) {
    const float a = load_float(p.a, row * p.a_stride + head, p.a_is_bf16 != 0);
    const float b = load_float(p.b, row * p.b_stride + head, p.b_is_bf16 != 0);
    const float rate = expf(pointer<const float>(p.A_log)[head]);
    scratch.decay = expf(-rate * softplus(a + pointer<const float>(p.dt_bias)[head]));
    scratch.beta = sigmoid(b);
  }
  __syncthreads();
}

/// Sum over the warps of each column, in order; every thread gets that of its column.
FORETOKEN_DEVICE float column_sum(float value, DeltaScratch& scratch) {
  const uint32_t column = threadIdx.x % kStateColumns;
  scratch.part[threadIdx.x / kStateColumns][column] = value;
  __syncthreads();
  float sum = scratch.part[0][column];
#pragma unroll
  for (uint32_t warp = 1; warp < kStateWarps; ++warp) sum += scratch.part[warp][column];
  __syncthreads();
  return sum;
}

/// Thread (warp w, lane c) holds column c of keys w, w + kStateWarps, ...: kHeld of them.
template <uint32_t kHeld>
__global__ void __launch_bounds__(kStateThreads) gated_delta_rule(const GatedDeltaRuleParams p) {
  begin_kernel();
  __shared__ DeltaScratch scratch;
  const SequenceRows rows = sequence_rows(p.query_start_loc, p.state_slots, p.num_slots, blockIdx.z);
  if (rows.count == 0) return;
  const uint32_t head = blockIdx.y;
  const uint32_t key_head = head / (p.num_value_heads / p.num_key_heads);
  const uint32_t column = blockIdx.x * kStateColumns + threadIdx.x % kStateColumns;
  const uint32_t first_key = threadIdx.x / kStateColumns;
  const bool exists = column < p.value_dim;
  const bool recording = p.key_record != 0;
  auto* state = pointer<float>(p.state) + (uint64_t{rows.slot} * p.num_value_heads + head) * p.key_dim * p.value_dim + column;
  float s[kHeld];
#pragma unroll
  for (uint32_t i = 0; i < kHeld; ++i) {
    const uint32_t key = first_key + i * kStateWarps;
    s[i] = exists && key < p.key_dim ? state[uint64_t{key} * p.value_dim] : 0.0F;
  }
  for (uint32_t index = 0; index < rows.count; ++index) {
    const uint32_t row = rows.first + index;
    prepare_row(p, row, head, key_head, scratch);
    const uint64_t value_at =
        row * p.qkv_stride + 2 * uint64_t{p.num_key_heads} * p.key_dim + uint64_t{head} * p.value_dim + column;
    const float value = exists ? load_float(p.qkv, value_at, p.qkv_is_bf16 != 0) : 0.0F;
    const float decay = scratch.decay;
    float seen = 0.0F;
#pragma unroll
    for (uint32_t i = 0; i < kHeld; ++i) {
      const uint32_t key = first_key + i * kStateWarps;
      if (key < p.key_dim) seen = fmaf(s[i], scratch.key[key], seen);
    }
    const float delta = scratch.beta * (value - decay * column_sum(seen, scratch));
    float answer = 0.0F;
#pragma unroll
    for (uint32_t i = 0; i < kHeld; ++i) {
      const uint32_t key = first_key + i * kStateWarps;
      if (key >= p.key_dim) continue;
      s[i] = fmaf(scratch.key[key], delta, decay * s[i]);
      answer = fmaf(s[i], scratch.query[key], answer);
    }
    answer = column_sum(answer, scratch);
    if (exists && first_key == 0) {
      store_float(p.out, row * p.out_stride + uint64_t{head} * p.value_dim + column, answer, p.out_is_bf16 != 0);
    }
    if (recording && index < p.record_rows) {
      const uint64_t record = uint64_t{rows.slot} * p.record_rows + index;
      if (exists && first_key == 0) {
        pointer<float>(p.delta_record)[(record * p.num_value_heads + head) * p.value_dim + column] = delta;
      }
      if (blockIdx.x == 0 && threadIdx.x == 0) pointer<float>(p.decay_record)[record * p.num_value_heads + head] = decay;
      // Value heads of one key head have one key: the first of them writes it.
      if (blockIdx.x == 0 && head % (p.num_value_heads / p.num_key_heads) == 0 && threadIdx.x < p.key_dim) {
        pointer<float>(p.key_record)[(record * p.num_key_heads + key_head) * p.key_dim + threadIdx.x] = scratch.key[threadIdx.x];
      }
    }
    __syncthreads();  // the scratch is free for the next row
  }
  if (recording || !exists) return;
#pragma unroll
  for (uint32_t i = 0; i < kHeld; ++i) {
    const uint32_t key = first_key + i * kStateWarps;
    if (key < p.key_dim) state[uint64_t{key} * p.value_dim] = s[i];
  }
}

/// Adds `count` recorded rows to a column tile of one head's state.
FORETOKEN_DEVICE void commit_state(const RecurrentCommitParams& p, uint32_t slot, uint32_t count, uint32_t head, uint32_t tile) {
  const uint32_t column = tile * kStateColumns + threadIdx.x % kStateColumns;
  if (column >= p.value_dim) return;
  const uint32_t key_head = head / (p.num_value_heads / p.num_key_heads);
  auto* state = pointer<float>(p.state) + (uint64_t{slot} * p.num_value_heads + head) * p.key_dim * p.value_dim + column;
  for (uint32_t key = threadIdx.x / kStateColumns; key < p.key_dim; key += kStateWarps) {
    float s = state[uint64_t{key} * p.value_dim];
    for (uint32_t i = 0; i < count; ++i) {
      const uint64_t record = uint64_t{slot} * p.record_rows + i;
      const float decay = pointer<const float>(p.decay_record)[record * p.num_value_heads + head];
      const float k = pointer<const float>(p.key_record)[(record * p.num_key_heads + key_head) * p.key_dim + key];
      const float delta = pointer<const float>(p.delta_record)[(record * p.num_value_heads + head) * p.value_dim + column];
      s = fmaf(k, delta, decay * s);
    }
    state[uint64_t{key} * p.value_dim] = s;
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
