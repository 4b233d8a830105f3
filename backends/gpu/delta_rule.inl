// gated_delta_rule (core/ops/gated_delta_rule.h) for rows one after another. A state element sees the same operations in the same
// order whether its rows come one by one, in one call, or recorded and committed: s = fma(k, delta, decay * s). Sums over keys
// and columns form the same tree for every row.
#pragma once

#include "backends/gpu/delta_state.inl"

namespace foretoken::gpu {
namespace {

/// Rows that a group prepares together. Few, and its code small: much of what it runs, it runs once, from cold.
constexpr uint32_t kRowBlock = 4;

/// What the threads of a group share that has kBlocks column blocks. What does not exist of a key, query or value is 0.
template <uint32_t kBlocks>
struct alignas(16) DeltaScratch {
  float query[kRowBlock][kMaxStateDim];
  float key[kRowBlock][kMaxStateDim];
  float value[kRowBlock][kBlocks * kStateColumns];
  float z[kRowBlock][kBlocks * kStateColumns];
  float seen[2][kKeyWarps][kBlocks * kStateColumns];
  float answer[kRowBlock][kKeyWarps][kBlocks * kStateColumns];
  float recorded[kRowBlock][kMaxStateDim + kBlocks * kStateColumns];  // keys and deltas
  float recorded_decay[kRowBlock];
  float decay[kRowBlock];
  float beta[kRowBlock];
  float squares[2][kColumnBlocks][kRowBlock];  // of the outputs, by column block
};

/// A block of recorded rows on its way to the scratch.
template <uint32_t kBlocks, class Heads>
struct RecordedRows {
  static constexpr uint32_t kThreads = kBlocks * kColumnBlockThreads;
  static constexpr uint32_t kKeyQuads = kMaxStateDim / kQuad;
  static constexpr uint32_t kQuads = kKeyQuads + kBlocks * kStateColumns / kQuad;  // of a row: its key, then its delta
  static constexpr uint32_t kHeld = (kRowBlock * kQuads + kThreads - 1) / kThreads;
  float4 held[kHeld];
  float decay;

  FORETOKEN_DEVICE void load(const GatedDeltaRuleParams& p, const DeltaPlace& at, uint32_t first, uint32_t count) {
    const auto record = [&](uint32_t row) {
      return (uint64_t{at.slot} * p.record_rows + first + row) * p.num_value_heads + at.head;
    };
#pragma unroll
    for (uint32_t u = 0; u < kHeld; ++u) {
      const uint32_t row = (threadIdx.x + u * kThreads) / kQuads;
      const uint32_t quad = (threadIdx.x + u * kThreads) % kQuads;
      if (row >= count) continue;
      const bool is_key = quad < kKeyQuads;
      const uint32_t dim = is_key ? Heads::key_dim(p) : Heads::value_dim(p);
      const uint32_t begin = is_key ? quad * kQuad : at.first_column + (quad - kKeyQuads) * kQuad;
      held[u] = load_quad<Heads>(is_key ? p.key_record : p.delta_record, record(row) * dim + begin, begin, dim);
    }
    if (threadIdx.x < count) decay = pointer<const float>(p.decay_record)[record(threadIdx.x)];
  }
  FORETOKEN_DEVICE void store(uint32_t count, DeltaScratch<kBlocks>& scratch) const {
#pragma unroll
    for (uint32_t u = 0; u < kHeld; ++u) {
      const uint32_t row = (threadIdx.x + u * kThreads) / kQuads;
      const uint32_t quad = (threadIdx.x + u * kThreads) % kQuads;
      if (row < count) reinterpret_cast<float4*>(scratch.recorded[row])[quad] = held[u];
    }
    if (threadIdx.x < count) scratch.recorded_decay[threadIdx.x] = decay;
  }
};

/// Adds the recorded rows that the sequence commits to the state, in registers.
template <uint32_t kBlocks, class Heads>
FORETOKEN_DEVICE void commit_rows(const GatedDeltaRuleParams& p, const DeltaPlace& at, uint32_t committed,
                                  DeltaScratch<kBlocks>& scratch, HeldState<Heads>& state) {
#pragma unroll 1
  for (uint32_t first = 0; first < committed; first += kRowBlock) {
    const uint32_t count = smaller(kRowBlock, committed - first);
    RecordedRows<kBlocks, Heads> recorded;
    recorded.load(p, at, first, count);
    __syncthreads();  // the block before has been used
    recorded.store(count, scratch);
    __syncthreads();
#pragma unroll 1
    for (uint32_t w = 0; w < count; ++w) {
      float keys[kThreadKeys];
      load_keys(scratch.recorded[w] + at.first_key, keys);
      const float4 delta = *reinterpret_cast<const float4*>(scratch.recorded[w] + kMaxStateDim + at.column);
      state.update(keys, delta, scratch.recorded_decay[w]);
    }
  }
}

/// Queries, keys, values and gates of a block of rows on their way to the scratch: each vector is one warp's.
template <uint32_t kBlocks, class Heads>
struct RowVectors {
  static constexpr uint32_t kWarps = kBlocks * kKeyWarps;
  static constexpr uint32_t kKinds = 4;  // query, key, value, z
  static constexpr uint32_t kHeld = kKinds * kRowBlock / kWarps;
  static_assert(kWarps % kKinds == 0);
  float4 held[kHeld];  // of rows warp / kKinds + u * kWarps / kKinds
  float decay;
  float beta;

  FORETOKEN_DEVICE static uint32_t kind() { return threadIdx.x / kLanes % kKinds; }
  FORETOKEN_DEVICE static uint32_t row(uint32_t u) { return threadIdx.x / kLanes / kKinds + u * (kWarps / kKinds); }
  /// Of a value or z, those that are the group's.
  FORETOKEN_DEVICE static bool has_lane() { return kind() < 2 || threadIdx.x % kLanes * kQuad < kBlocks * kStateColumns; }

  FORETOKEN_DEVICE void load(const GatedDeltaRuleParams& p, const DeltaPlace& at, uint32_t first, uint32_t count) {
    const bool is_key = kind() < 2;
    const bool is_z = kind() == 3;
    const uint32_t begin = threadIdx.x % kLanes * kQuad + (is_key ? 0 : at.first_column);
    const uint32_t end = is_key ? Heads::key_dim(p) : Heads::value_dim(p);
    const uint64_t keys = uint64_t{p.num_key_heads} * Heads::key_dim(p);
    uint64_t index = begin;
    if (is_key) index += kind() * keys + uint64_t{at.key_head} * Heads::key_dim(p);
    if (!is_key) index += uint64_t{at.head} * Heads::value_dim(p) + (is_z ? 0 : 2 * keys);
    const bool reads = has_lane() && (!is_z || p.z != 0);
    const uint64_t stride = is_z ? p.z_stride : p.qkv_stride;
#pragma unroll
    for (uint32_t u = 0; u < kHeld; ++u) {
      held[u] = {0.0F, 0.0F, 0.0F, 0.0F};
      if (!reads || row(u) >= count) continue;
      held[u] =
          load_quad<Heads>(is_z ? p.z : p.qkv, (first + row(u)) * stride + index, begin, end, is_z ? p.z_is_bf16 : p.qkv_is_bf16);
    }
    const uint32_t w = threadIdx.x % kLanes;
    if (threadIdx.x / kLanes != kWarps - 1 || w >= count) return;
    const float a = load_float(p.a, (first + w) * p.a_stride + at.head, p.a_is_bf16 != 0);
    const float b = load_float(p.b, (first + w) * p.b_stride + at.head, p.b_is_bf16 != 0);
    const float rate = expf(pointer<const float>(p.A_log)[at.head]);
    decay = expf(-rate * softplus(a + pointer<const float>(p.dt_bias)[at.head]));
    beta = sigmoid(b);
  }

  FORETOKEN_DEVICE void store(const GatedDeltaRuleParams& p, uint32_t count, DeltaScratch<kBlocks>& scratch) {
    const uint32_t lane = threadIdx.x % kLanes;
    if (kind() < 2) normalise(kind() == 0 ? 1.0F / sqrtf(static_cast<float>(Heads::key_dim(p))) : 1.0F);
    float* target = kind() == 0 ? scratch.query[0] : kind() == 1 ? scratch.key[0] : kind() == 2 ? scratch.value[0] : scratch.z[0];
    const uint32_t width = kind() < 2 ? kMaxStateDim : kBlocks * kStateColumns;
#pragma unroll
    for (uint32_t u = 0; u < kHeld; ++u) {
      if (has_lane()) *reinterpret_cast<float4*>(target + row(u) * width + lane * kQuad) = held[u];
    }
    if (threadIdx.x / kLanes != kWarps - 1 || lane >= count) return;
    scratch.decay[lane] = decay;
    scratch.beta[lane] = beta;
  }

 private:
  /// Brings the vectors to length `scale`.
  FORETOKEN_DEVICE void normalise(float scale) {
    float sum[kHeld];
#pragma unroll
    for (uint32_t u = 0; u < kHeld; ++u) {
      const float4 v = held[u];
      sum[u] = fmaf(v.x, v.x, v.y * v.y) + fmaf(v.z, v.z, v.w * v.w);
    }
#pragma unroll
    for (int mask = kLanes / 2; mask > 0; mask /= 2) {
#pragma unroll
      for (uint32_t u = 0; u < kHeld; ++u) sum[u] += lane_xor(sum[u], mask);
    }
#pragma unroll
    for (uint32_t u = 0; u < kHeld; ++u) {
      const float factor = scale / sqrtf(sum[u] + 1e-6F);
      held[u] = {held[u].x * factor, held[u].y * factor, held[u].z * factor, held[u].w * factor};
    }
  }
};

/// Row `index` of the sequence, number w of its block: updates the state; leaves the sums of the answer in the scratch.
template <uint32_t kBlocks, class Heads>
FORETOKEN_DEVICE void delta_step(const GatedDeltaRuleParams& p, const DeltaPlace& at, uint32_t index, uint32_t w,
                                 DeltaScratch<kBlocks>& scratch, HeldState<Heads>& state) {
  const uint32_t sum_column = column_of_sum(at);
  float keys[kThreadKeys];
  load_keys(scratch.key[w] + at.first_key, keys);
  const float decay = scratch.decay[w];
  const float beta = scratch.beta[w];
  auto& seen = scratch.seen[index % 2];  // rows take turns, so one barrier is enough
  seen[at.key_warp][sum_column] = sum_of_column(state.transposed_times(keys));
  __syncthreads();
  float4 sum = *reinterpret_cast<const float4*>(seen[0] + at.column);
#pragma unroll
  for (uint32_t i = 1; i < kKeyWarps; ++i) {
    const float4 part = *reinterpret_cast<const float4*>(seen[i] + at.column);
    sum = {sum.x + part.x, sum.y + part.y, sum.z + part.z, sum.w + part.w};
  }
  const float4 value = *reinterpret_cast<const float4*>(scratch.value[w] + at.column);
  const float4 delta{beta * (value.x - decay * sum.x), beta * (value.y - decay * sum.y), beta * (value.z - decay * sum.z),
                     beta * (value.w - decay * sum.w)};
  state.update(keys, delta, decay);
  float query[kThreadKeys];
  load_keys(scratch.query[w] + at.first_key, query);
  scratch.answer[w][at.key_warp][sum_column] = sum_of_column(state.transposed_times(query));
  if (p.records == 0 || index >= p.record_rows || at.key_warp != 0 || threadIdx.x % kLanes >= kQuadLanes) return;
  const uint64_t record = (uint64_t{at.slot} * p.record_rows + index) * p.num_value_heads + at.head;
  const uint32_t column = at.first_column + at.column;
  store_quad<Heads>(p.delta_record, record * Heads::value_dim(p) + column, delta, column, Heads::value_dim(p));
}

/// Records keys and decays of `count` rows from `first` on: all groups of the head have read the records of before.
template <uint32_t kBlocks, class Heads>
FORETOKEN_DEVICE void record_keys(const GatedDeltaRuleParams& p, const DeltaPlace& at, uint32_t first, uint32_t count,
                                  const DeltaScratch<kBlocks>& scratch) {
  for (uint32_t w = threadIdx.x / kMaxStateDim; w < smaller(count, p.record_rows - first);
       w += kBlocks * kColumnBlockThreads / kMaxStateDim) {
    const uint32_t i = threadIdx.x % kMaxStateDim;
    const uint64_t record = (uint64_t{at.slot} * p.record_rows + first + w) * p.num_value_heads + at.head;
    if (i < Heads::key_dim(p)) pointer<float>(p.key_record)[record * Heads::key_dim(p) + i] = scratch.key[w][i];
    if (i == 0) pointer<float>(p.decay_record)[record] = scratch.decay[w];
  }
}

/// Outputs of `count` rows from `first` of the call on, normed and gated where the call has z: a warp takes a row. Every thread
/// calls it.
template <uint32_t kBlocks, class Heads, class Groups>
FORETOKEN_DEVICE void finish_rows(const GatedDeltaRuleParams& p, const DeltaPlace& at, uint32_t first, uint32_t count,
                                  uint32_t parity, const Groups& groups, DeltaScratch<kBlocks>& scratch) {
  static_assert(kRowBlock <= kBlocks * kKeyWarps);
  const uint32_t w = threadIdx.x / kLanes;
  const uint32_t lane = threadIdx.x % kLanes;
  float outputs[kBlocks];
  if (w < count) {
#pragma unroll
    for (uint32_t block = 0; block < kBlocks; ++block) {
      const uint32_t column = block * kStateColumns + lane;
      float sum = scratch.answer[w][0][column];
#pragma unroll
      for (uint32_t i = 1; i < kKeyWarps; ++i) sum += scratch.answer[w][i][column];
      outputs[block] = sum;
      const float squares = lane_sum(at.first_column + column < Heads::value_dim(p) ? sum * sum : 0.0F);
      if (lane == 0) groups.give(scratch.squares[parity], block, w, squares);
    }
  }
  groups.meet();
  if (w >= count) return;
  float squares = 0.0F;
#pragma unroll
  for (uint32_t block = 0; block < kColumnBlocks; ++block) squares += scratch.squares[parity][block][w];
  const float factor = 1.0F / sqrtf(squares / static_cast<float>(Heads::value_dim(p)) + p.eps);
#pragma unroll
  for (uint32_t block = 0; block < kBlocks; ++block) {
    const uint32_t column = at.first_column + block * kStateColumns + lane;
    if (column >= Heads::value_dim(p)) continue;
    float value = outputs[block];
    if (p.z != 0) {
      value = pointer<const float>(p.norm)[column] * (value * factor) * silu(scratch.z[w][block * kStateColumns + lane]);
    }
    store_float(p.out, (first + w) * p.out_stride + uint64_t{at.head} * Heads::value_dim(p) + column, value, p.out_is_bf16 != 0);
  }
}

/// The rows of a sequence through kBlocks column blocks of a head; `groups` knows those that have the others.
template <uint32_t kBlocks, class Heads, class Groups>
FORETOKEN_DEVICE void delta_rule_rows(const GatedDeltaRuleParams& p, const Groups& groups, DeltaScratch<kBlocks>& scratch) {
  allow_next();
  const SequenceRows rows = sequence_rows(p, blockIdx.z);
  const DeltaPlace at = delta_place<kBlocks>(p, rows.slot, groups.rank());
  if (rows.count > 0) prefetch_head<Heads>(p, at, rows.committed);
  wait_for_previous();
  if (rows.count == 0) return;
  groups.arrive();
  HeldState<Heads> state;
  state.load(p, at);
  RowVectors<kBlocks, Heads> vectors;
  vectors.load(p, at, rows.first, smaller(kRowBlock, rows.count));
  commit_rows(p, at, rows.committed, scratch, state);
  if (p.records != 0 && rows.committed > 0) state.store(p, at);
#pragma unroll 1
  for (uint32_t first = 0; first < rows.count; first += kRowBlock) {
    const uint32_t count = smaller(kRowBlock, rows.count - first);
    __syncthreads();  // the block before has been used
    vectors.store(p, count, scratch);
    __syncthreads();
    const uint32_t next = first + kRowBlock;
    if (next < rows.count) vectors.load(p, at, rows.first + next, smaller(kRowBlock, rows.count - next));
#pragma unroll 1
    for (uint32_t w = 0; w < count; ++w) delta_step(p, at, first + w, w, scratch, state);
    __syncthreads();
    if (first == 0) groups.wait();
    finish_rows<kBlocks, Heads>(p, at, rows.first + first, count, first / kRowBlock % 2, groups, scratch);
    if (p.records != 0 && groups.rank() == 0 && first < p.record_rows) record_keys<kBlocks, Heads>(p, at, first, count, scratch);
  }
  if (p.records == 0) state.store(p, at);
}

/// A head whose columns are all one group's. Groups that share a head arrive once they run, wait for each other before they give
/// anything, and meet when all have given.
struct LoneGroup {
  FORETOKEN_DEVICE static uint32_t rank() { return 0; }
  FORETOKEN_DEVICE static void arrive() {}
  FORETOKEN_DEVICE static void wait() {}
  FORETOKEN_DEVICE static void give(float (&squares)[kColumnBlocks][kRowBlock], uint32_t block, uint32_t w, float value) {
    squares[block][w] = value;
  }
  FORETOKEN_DEVICE static void meet() { __syncthreads(); }
};

template <class Heads>
__global__ void __launch_bounds__(kWholeHeadThreads) gated_delta_rule(const GatedDeltaRuleParams p) {
  __shared__ DeltaScratch<kColumnBlocks> scratch;
  delta_rule_rows<kColumnBlocks, Heads>(p, LoneGroup{}, scratch);
}

}  // namespace
}  // namespace foretoken::gpu
