// gated_delta_rule (core/ops/gated_delta_rule.h) for rows one after another. A state element sees the same operations in the same
// order whether its rows come one by one, in one call, or recorded and committed: s = fma(k, delta, decay * s). Sums over keys
// and columns form the same tree for every row.
#pragma once

#include "backends/gpu/delta_net.inl"

namespace foretoken::gpu {
namespace {

/// Rows that a group prepares together.
constexpr uint32_t kRowBlock = 8;
/// What a thread holds: four columns of the state, and kThreadKeys keys of them.
constexpr uint32_t kThreadKeys = 8;
constexpr uint32_t kQuad = 4;
constexpr uint32_t kQuadLanes = kStateColumns / kQuad;
constexpr uint32_t kWarpKeys = kThreadKeys * kLanes / kQuadLanes;
static_assert(kKeyWarps * kWarpKeys == kMaxStateDim && kQuadLanes * kQuad == kStateColumns);

/// What the threads of a group share that has kBlocks column blocks. What does not exist of a key, query or value is 0.
template <uint32_t kBlocks>
struct DeltaScratch {
  float query[kRowBlock][kMaxStateDim];
  float key[kRowBlock][kMaxStateDim];
  float value[kRowBlock][kBlocks * kStateColumns];
  float z[kRowBlock][kBlocks * kStateColumns];
  float seen[2][kKeyWarps][kBlocks * kStateColumns];
  float answer[kRowBlock][kKeyWarps][kBlocks * kStateColumns];
  float recorded_key[kRowBlock][kMaxStateDim];
  float recorded_delta[kRowBlock][kBlocks * kStateColumns];
  float recorded_decay[kRowBlock];
  float decay[kRowBlock];
  float beta[kRowBlock];
  float squares[2][kColumnBlocks][kRowBlock];  // of the outputs, by column block
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

FORETOKEN_DEVICE float4 whole_quad(F32Element, uint64_t base, uint64_t index) {
  return *reinterpret_cast<const float4*>(pointer<const float>(base) + index);
}
FORETOKEN_DEVICE float4 whole_quad(Bf16Element, uint64_t base, uint64_t index) {
  const uint2 bits = *reinterpret_cast<const uint2*>(pointer<const uint16_t>(base) + index);
  return {bits_to_float(bits.x << 16), bits_to_float(bits.x & 0xffff0000U), bits_to_float(bits.y << 16),
          bits_to_float(bits.y & 0xffff0000U)};
}

/// Elements index .. index + 4, of which `count` exist.
template <class Element>
FORETOKEN_DEVICE float4 load_quad(Element element, uint64_t base, uint64_t index, uint32_t count, bool whole) {
  if (count == 0) return {0.0F, 0.0F, 0.0F, 0.0F};
  if (whole) return whole_quad(element, base, index);
  return {Element::load(base, index), count > 1 ? Element::load(base, index + 1) : 0.0F,
          count > 2 ? Element::load(base, index + 2) : 0.0F, count > 3 ? Element::load(base, index + 3) : 0.0F};
}

FORETOKEN_DEVICE void store_quad(float* target, float4 quad, uint32_t count, bool whole) {
  if (count == 0) return;
  if (whole) {
    *reinterpret_cast<float4*>(target) = quad;
    return;
  }
  target[0] = quad.x;
  if (count > 1) target[1] = quad.y;
  if (count > 2) target[2] = quad.z;
  if (count > 3) target[3] = quad.w;
}

/// Of four elements from `first` on, those below `end`.
FORETOKEN_DEVICE uint32_t quad_count(uint32_t first, uint32_t end) { return first < end ? smaller(end - first, kQuad) : 0; }

/// The thread's part of a state.
struct HeldState {
  float4 s[kThreadKeys];

  FORETOKEN_DEVICE static uint64_t offset(const GatedDeltaRuleParams& p, const DeltaPlace& at, uint32_t key) {
    const uint64_t head = uint64_t{at.slot} * p.num_value_heads + at.head;
    return (head * p.key_dim + at.first_key + key) * p.value_dim + at.first_column + at.column;
  }
  FORETOKEN_DEVICE static uint32_t count(const GatedDeltaRuleParams& p, const DeltaPlace& at, uint32_t key) {
    return at.first_key + key < p.key_dim ? quad_count(at.first_column + at.column, p.value_dim) : 0;
  }
  FORETOKEN_DEVICE void load(const GatedDeltaRuleParams& p, const DeltaPlace& at) {
#pragma unroll
    for (uint32_t i = 0; i < kThreadKeys; ++i) {
      s[i] = load_quad(F32Element{}, p.state, offset(p, at, i), count(p, at, i), p.quads != 0);
    }
  }
  FORETOKEN_DEVICE void store(const GatedDeltaRuleParams& p, const DeltaPlace& at) const {
#pragma unroll
    for (uint32_t i = 0; i < kThreadKeys; ++i) {
      store_quad(pointer<float>(p.state) + offset(p, at, i), s[i], count(p, at, i), p.quads != 0);
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

/// Brings the group's part of the state near. Its values may still change: nothing is read.
FORETOKEN_DEVICE void prefetch_state(const GatedDeltaRuleParams& p, const DeltaPlace& at) {
#pragma unroll
  for (uint32_t i = 0; i < kThreadKeys; ++i) {
    // The eight lanes of a row of 128 bytes take turns.
    if (threadIdx.x % kQuadLanes == i && HeldState::count(p, at, i) > 0) {
      prefetch(pointer<const float>(p.state) + HeldState::offset(p, at, i));
    }
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

/// A block of recorded rows on its way to the scratch.
template <uint32_t kBlocks>
struct RecordedRows {
  static constexpr uint32_t kThreads = kBlocks * kColumnBlockThreads;
  static constexpr uint32_t kKeyQuads = kMaxStateDim / kQuad;
  static constexpr uint32_t kDeltaQuads = kBlocks * kStateColumns / kQuad;
  static constexpr uint32_t kHeld = (kRowBlock * (kKeyQuads + kDeltaQuads) + kThreads - 1) / kThreads;
  float4 held[kHeld];
  float decay;

  FORETOKEN_DEVICE void load(const GatedDeltaRuleParams& p, const DeltaPlace& at, uint32_t first, uint32_t count) {
    const auto record = [&](uint32_t row) {
      return (uint64_t{at.slot} * p.record_rows + first + row) * p.num_value_heads + at.head;
    };
#pragma unroll
    for (uint32_t u = 0; u < kHeld; ++u) {
      const uint32_t item = threadIdx.x + u * kThreads;
      const uint32_t row = item / (kKeyQuads + kDeltaQuads);
      const uint32_t quad = item % (kKeyQuads + kDeltaQuads);
      if (row >= count) continue;
      if (quad < kKeyQuads) {
        held[u] = load_quad(F32Element{}, p.key_record, record(row) * p.key_dim + quad * kQuad,
                            quad_count(quad * kQuad, p.key_dim), p.quads != 0);
      } else {
        const uint32_t column = at.first_column + (quad - kKeyQuads) * kQuad;
        held[u] = load_quad(F32Element{}, p.delta_record, record(row) * p.value_dim + column, quad_count(column, p.value_dim),
                            p.quads != 0);
      }
    }
    if (threadIdx.x < count) decay = pointer<const float>(p.decay_record)[record(threadIdx.x)];
  }
  FORETOKEN_DEVICE void store(uint32_t count, DeltaScratch<kBlocks>& scratch) const {
#pragma unroll
    for (uint32_t u = 0; u < kHeld; ++u) {
      const uint32_t item = threadIdx.x + u * kThreads;
      const uint32_t row = item / (kKeyQuads + kDeltaQuads);
      const uint32_t quad = item % (kKeyQuads + kDeltaQuads);
      if (row >= count) continue;
      float* target =
          quad < kKeyQuads ? scratch.recorded_key[row] + quad * kQuad : scratch.recorded_delta[row] + (quad - kKeyQuads) * kQuad;
      *reinterpret_cast<float4*>(target) = held[u];
    }
    if (threadIdx.x < count) scratch.recorded_decay[threadIdx.x] = decay;
  }
};

/// Adds the recorded rows that the sequence commits to the state, in registers.
template <uint32_t kBlocks>
FORETOKEN_DEVICE void commit_rows(const GatedDeltaRuleParams& p, const DeltaPlace& at, uint32_t committed,
                                  DeltaScratch<kBlocks>& scratch, HeldState& state) {
  for (uint32_t first = 0; first < committed; first += kRowBlock) {
    const uint32_t count = smaller(kRowBlock, committed - first);
    RecordedRows<kBlocks> recorded;
    recorded.load(p, at, first, count);
    __syncthreads();  // the block before has been used
    recorded.store(count, scratch);
    __syncthreads();
    for (uint32_t w = 0; w < count; ++w) {
      float keys[kThreadKeys];
      load_keys(scratch.recorded_key[w] + at.first_key, keys);
      state.update(keys, *reinterpret_cast<const float4*>(scratch.recorded_delta[w] + at.column), scratch.recorded_decay[w]);
    }
  }
}

/// Queries, keys, values and gates of a block of rows on their way to the scratch: each vector is one warp's.
template <uint32_t kBlocks>
struct RowVectors {
  static constexpr uint32_t kWarps = kBlocks * kKeyWarps;
  static constexpr uint32_t kKinds = 4;  // query, key, value, z
  static constexpr uint32_t kHeld = kKinds * kRowBlock / kWarps;
  float4 held[kHeld];
  float decay;
  float beta;

  /// The vector `kind` of a row; the lanes hold four elements each.
  FORETOKEN_DEVICE static float4 load_vector(const GatedDeltaRuleParams& p, const DeltaPlace& at, uint32_t kind, uint32_t row) {
    const uint32_t i = threadIdx.x % kLanes * kQuad;
    if (kind < 2) {
      const uint64_t key_at = row * p.qkv_stride + (uint64_t{kind} * p.num_key_heads + at.key_head) * p.key_dim + i;
      const uint32_t count = quad_count(i, p.key_dim);
      return p.qkv_is_bf16 != 0 ? load_quad(Bf16Element{}, p.qkv, key_at, count, p.quads != 0)
                                : load_quad(F32Element{}, p.qkv, key_at, count, p.quads != 0);
    }
    const uint32_t column = at.first_column + i;
    const uint32_t count = i < kBlocks * kStateColumns ? quad_count(column, p.value_dim) : 0;
    const uint64_t value_at = uint64_t{at.head} * p.value_dim + column;
    if (kind == 2) {
      const uint64_t base = row * p.qkv_stride + 2 * uint64_t{p.num_key_heads} * p.key_dim + value_at;
      return p.qkv_is_bf16 != 0 ? load_quad(Bf16Element{}, p.qkv, base, count, p.quads != 0)
                                : load_quad(F32Element{}, p.qkv, base, count, p.quads != 0);
    }
    return p.z_is_bf16 != 0 ? load_quad(Bf16Element{}, p.z, row * p.z_stride + value_at, count, p.quads != 0)
                            : load_quad(F32Element{}, p.z, row * p.z_stride + value_at, count, p.quads != 0);
  }

  FORETOKEN_DEVICE void load(const GatedDeltaRuleParams& p, const DeltaPlace& at, uint32_t first, uint32_t count) {
    const uint32_t kinds = p.z != 0 ? kKinds : kKinds - 1;
#pragma unroll
    for (uint32_t u = 0; u < kHeld; ++u) {
      const uint32_t item = threadIdx.x / kLanes + u * kWarps;
      const uint32_t w = item / kKinds;
      if (w < count && item % kKinds < kinds) held[u] = load_vector(p, at, item % kKinds, first + w);
    }
    const uint32_t w = threadIdx.x % kLanes;
    if (threadIdx.x / kLanes != kWarps - 1 || w >= count) return;
    const float a = load_float(p.a, (first + w) * p.a_stride + at.head, p.a_is_bf16 != 0);
    const float b = load_float(p.b, (first + w) * p.b_stride + at.head, p.b_is_bf16 != 0);
    const float rate = expf(pointer<const float>(p.A_log)[at.head]);
    decay = expf(-rate * softplus(a + pointer<const float>(p.dt_bias)[at.head]));
    beta = sigmoid(b);
  }

  FORETOKEN_DEVICE void store(const GatedDeltaRuleParams& p, uint32_t count, DeltaScratch<kBlocks>& scratch) const {
    const uint32_t lane = threadIdx.x % kLanes;
#pragma unroll
    for (uint32_t u = 0; u < kHeld; ++u) {
      const uint32_t item = threadIdx.x / kLanes + u * kWarps;
      const uint32_t w = item / kKinds;
      const uint32_t kind = item % kKinds;
      if (w >= count) continue;
      float4 v = held[u];
      if (kind < 2) {
        const float scale = kind == 0 ? 1.0F / sqrtf(static_cast<float>(p.key_dim)) : 1.0F;
        const float sum = lane_sum(fmaf(v.x, v.x, v.y * v.y) + fmaf(v.z, v.z, v.w * v.w));
        const float factor = scale / sqrtf(sum + 1e-6F);
        v = {v.x * factor, v.y * factor, v.z * factor, v.w * factor};
        *reinterpret_cast<float4*>((kind == 0 ? scratch.query[w] : scratch.key[w]) + lane * kQuad) = v;
      } else if (lane * kQuad < kBlocks * kStateColumns) {
        *reinterpret_cast<float4*>((kind == 2 ? scratch.value[w] : scratch.z[w]) + lane * kQuad) = v;
      }
    }
    if (threadIdx.x / kLanes != kWarps - 1 || lane >= count) return;
    scratch.decay[lane] = decay;
    scratch.beta[lane] = beta;
  }
};

/// Row `index` of the sequence, number w of its block: updates the state; leaves the sums of the answer in the scratch.
template <uint32_t kBlocks>
FORETOKEN_DEVICE void delta_step(const GatedDeltaRuleParams& p, const DeltaPlace& at, uint32_t index, uint32_t w,
                                 DeltaScratch<kBlocks>& scratch, HeldState& state) {
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
  store_quad(pointer<float>(p.delta_record) + record * p.value_dim + column, delta, quad_count(column, p.value_dim),
             p.quads != 0);
}

/// Records keys and decays of `count` rows from `first` on: all groups of the head have read the records of before.
template <uint32_t kBlocks>
FORETOKEN_DEVICE void record_keys(const GatedDeltaRuleParams& p, const DeltaPlace& at, uint32_t first, uint32_t count,
                                  const DeltaScratch<kBlocks>& scratch) {
  for (uint32_t item = threadIdx.x; item < count * p.key_dim; item += kBlocks * kColumnBlockThreads) {
    const uint32_t w = item / p.key_dim;
    const uint32_t i = item % p.key_dim;
    if (first + w >= p.record_rows) return;
    const uint64_t record = (uint64_t{at.slot} * p.record_rows + first + w) * p.num_value_heads + at.head;
    pointer<float>(p.key_record)[record * p.key_dim + i] = scratch.key[w][i];
    if (i == 0) pointer<float>(p.decay_record)[record] = scratch.decay[w];
  }
}

/// Outputs of `count` rows from `first` of the call on, normed and gated where the call has z: a warp takes a row. Every thread
/// calls it.
template <uint32_t kBlocks, class Head>
FORETOKEN_DEVICE void finish_rows(const GatedDeltaRuleParams& p, const DeltaPlace& at, uint32_t first, uint32_t count,
                                  uint32_t parity, const Head& head, DeltaScratch<kBlocks>& scratch) {
  constexpr uint32_t kWarps = kBlocks * kKeyWarps;
  constexpr uint32_t kRows = (kRowBlock + kWarps - 1) / kWarps;
  const uint32_t warp = threadIdx.x / kLanes;
  const uint32_t lane = threadIdx.x % kLanes;
  float outputs[kRows][kBlocks];
#pragma unroll
  for (uint32_t u = 0; u < kRows; ++u) {
    const uint32_t w = warp + u * kWarps;
    if (w >= count) continue;
#pragma unroll
    for (uint32_t block = 0; block < kBlocks; ++block) {
      const uint32_t column = block * kStateColumns + lane;
      float sum = scratch.answer[w][0][column];
#pragma unroll
      for (uint32_t i = 1; i < kKeyWarps; ++i) sum += scratch.answer[w][i][column];
      outputs[u][block] = sum;
      const float squares = lane_sum(at.first_column + column < p.value_dim ? sum * sum : 0.0F);
      if (lane == 0) head.give(scratch.squares[parity], block, w, squares);
    }
  }
  head.meet();
#pragma unroll
  for (uint32_t u = 0; u < kRows; ++u) {
    const uint32_t w = warp + u * kWarps;
    if (w >= count) continue;
    float squares = 0.0F;
#pragma unroll
    for (uint32_t block = 0; block < kColumnBlocks; ++block) squares += scratch.squares[parity][block][w];
    const float factor = 1.0F / sqrtf(squares / static_cast<float>(p.value_dim) + p.eps);
#pragma unroll
    for (uint32_t block = 0; block < kBlocks; ++block) {
      const uint32_t column = block * kStateColumns + lane;
      if (at.first_column + column >= p.value_dim) continue;
      const uint64_t index = (first + w) * p.out_stride + uint64_t{at.head} * p.value_dim + at.first_column + column;
      float value = outputs[u][block];
      if (p.z != 0) {
        value = pointer<const float>(p.norm)[at.first_column + column] * (value * factor) * silu(scratch.z[w][column]);
      }
      store_float(p.out, index, value, p.out_is_bf16 != 0);
    }
  }
}

/// The rows of a sequence through kBlocks column blocks of a head; `head` knows the groups that have the others.
template <uint32_t kBlocks, class Head>
FORETOKEN_DEVICE void delta_rule_rows(const GatedDeltaRuleParams& p, const Head& head, DeltaScratch<kBlocks>& scratch) {
  allow_next();
  const SequenceRows rows = sequence_rows(p, blockIdx.z);
  const DeltaPlace at = delta_place<kBlocks>(p, rows.slot, head.rank());
  if (rows.count > 0) prefetch_state(p, at);
  wait_for_previous();
  if (rows.count == 0) return;
  head.arrive();
  HeldState state;
  state.load(p, at);
  RowVectors<kBlocks> vectors;
  vectors.load(p, at, rows.first, smaller(kRowBlock, rows.count));
  commit_rows(p, at, rows.committed, scratch, state);
  if (p.records != 0 && rows.committed > 0) state.store(p, at);
  for (uint32_t first = 0; first < rows.count; first += kRowBlock) {
    const uint32_t count = smaller(kRowBlock, rows.count - first);
    if (first > 0) vectors.load(p, at, rows.first + first, count);
    __syncthreads();  // the block before has been used
    vectors.store(p, count, scratch);
    __syncthreads();
    for (uint32_t w = 0; w < count; ++w) delta_step(p, at, first + w, w, scratch, state);
    __syncthreads();
    if (first == 0) head.wait();
    finish_rows(p, at, rows.first + first, count, first / kRowBlock % 2, head, scratch);
    if (p.records != 0 && head.rank() == 0) record_keys(p, at, first, count, scratch);
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

__global__ void __launch_bounds__(kWholeHeadThreads) gated_delta_rule(const GatedDeltaRuleParams p) {
  __shared__ alignas(16) DeltaScratch<kColumnBlocks> scratch;
  delta_rule_rows(p, LoneGroup{}, scratch);
}

}  // namespace
}  // namespace foretoken::gpu
