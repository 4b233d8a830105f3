// The delta rule of prefill on tensor cores, in chunks of 32 rows. With G_t the product of the decays up to row t of a chunk, S_0
// the state before it and r(t, i) = G_t / G_i, unrolling the recurrence of core/ops/gated_delta_rule.h gives
//   delta_t = beta_t (v_t - G_t S_0^T k_t - sum_{i<t} r(t, i) (k_t . k_i) delta_i)
//   o_t     = G_t S_0^T q_t + sum_{i<=t} r(t, i) (q_t . k_i) delta_i
//   S       = G_end S_0 + sum_i k_i (r(end, i) delta_i)^T
// (the chunkwise form of Yang et al., "Parallelizing Linear Transformers with the Delta Rule over Sequence Length", 2024, with
// the decay of "Gated Delta Networks", 2024). Each operand of a product is the sum of two BF16 numbers, of which the product of
// the two lower ones is left out: good to about 2^-16, while one BF16 number is too coarse for outputs that cancel out. The
// triangular system for delta, the decays and the state stay in float32. Chunks start at the first row of a sequence in the call.
#pragma once

#include "backends/cuda/kernels/delta_chunk_params.h"
#include "backends/cuda/kernels/split_operands.cuh"
#include "backends/gpu/kernel_entry.h"

namespace foretoken::cuda {
namespace {

using gpu::kLanes;
using gpu::pointer;

constexpr uint32_t kWarps = kDeltaChunkThreads / kLanes;
constexpr uint32_t kRowsPerWarp = 2 * kDeltaChunk / kWarps;  // keys and queries that a warp brings to unit length
constexpr uint32_t kPairs = kDeltaChunkDim / 2 / kLanes;     // of neighbours that a lane holds of a key or query
constexpr uint32_t kColumnBlocks = kDeltaChunkColumns / 8;

/// Where a work group works.
struct ChunkPlace {
  uint32_t first_row;  // of the sequence, in the call
  uint32_t num_rows;   // of the sequence; 0: nothing to do
  uint32_t slot;
  uint32_t num_commit;  // recorded rows that go into the state first
  uint32_t head;
  uint32_t key_head;
  uint32_t first_column;
};

__device__ __forceinline__ ChunkPlace chunk_place(const DeltaChunkParams& p) {
  const uint32_t sequence = blockIdx.z;
  const auto* starts = pointer<const int32_t>(p.query_start_loc);
  const int32_t count = starts[sequence + 1] - starts[sequence];
  const int32_t slot = pointer<const int32_t>(p.state_slots)[sequence];
  const int32_t commit = p.num_commit != 0 ? pointer<const int32_t>(p.num_commit)[sequence] : 0;
  ChunkPlace at{};
  if (count <= 0 || slot < 0 || static_cast<uint32_t>(slot) >= p.num_slots) return at;
  at.first_row = static_cast<uint32_t>(starts[sequence]);
  at.num_rows = static_cast<uint32_t>(count);
  at.slot = static_cast<uint32_t>(slot);
  at.num_commit = commit > 0 ? gpu::smaller(static_cast<uint32_t>(commit), p.record_rows) : 0;
  at.head = blockIdx.y;
  at.key_head = blockIdx.y / (p.num_value_heads / p.num_key_heads);
  at.first_column = blockIdx.x * kDeltaChunkColumns;
  return at;
}

/// Elements of keys and queries on their way: warp w has rows w * kRowsPerWarp, ... of the keys and queries of a chunk.
struct RowLoad {
  float2 pair[kRowsPerWarp][kPairs];

  __device__ __forceinline__ void load(const DeltaChunkParams& p, const ChunkPlace& at, uint32_t chunk) {
    const uint32_t first = threadIdx.x / kLanes * kRowsPerWarp;
    const uint32_t is_query = first / kDeltaChunk;
    const uint64_t head = (uint64_t{1 - is_query} * p.num_key_heads + at.key_head) * p.key_dim;
    gpu::with_element(p.qkv_is_bf16, [&](auto element) {
#pragma unroll
      for (uint32_t i = 0; i < kRowsPerWarp; ++i) {
        const uint32_t row = chunk + first % kDeltaChunk + i;
#pragma unroll
        for (uint32_t u = 0; u < kPairs; ++u) {
          const uint32_t d = (threadIdx.x % kLanes + u * kLanes) * 2;
          const bool exists = row < at.num_rows && d < p.key_dim;
          const uint64_t index = (at.first_row + row) * p.qkv_stride + head + d;
          pair[i][u] = exists ? make_float2(element.load(p.qkv, index), element.load(p.qkv, index + 1)) : make_float2(0.0F, 0.0F);
        }
      }
    });
  }

  /// At unit length, queries times 1 / sqrt(key_dim), in two parts.
  __device__ __forceinline__ void store(const DeltaChunkParams& p, DeltaChunkMemory& memory) const {
    const uint32_t first = threadIdx.x / kLanes * kRowsPerWarp;
    const float scale = first < kDeltaChunk ? 1.0F : 1.0F / sqrtf(static_cast<float>(p.key_dim));
#pragma unroll
    for (uint32_t i = 0; i < kRowsPerWarp; ++i) {
      float sum = 0.0F;
#pragma unroll
      for (uint32_t u = 0; u < kPairs; ++u) sum = fmaf(pair[i][u].x, pair[i][u].x, fmaf(pair[i][u].y, pair[i][u].y, sum));
      const float factor = scale / sqrtf(gpu::lane_sum(sum) + 1e-6F);
#pragma unroll
      for (uint32_t u = 0; u < kPairs; ++u) {
        const uint32_t d = (threadIdx.x % kLanes + u * kLanes) * 2;
        SplitPair(pair[i][u].x * factor, pair[i][u].y * factor)
            .store(memory.rows[0], memory.rows[1], (first + i) * kDeltaKeyStride + d);
      }
    }
  }
};

/// One warp: decays and betas of a chunk's rows; rows that are not there keep the state as it is.
__device__ __forceinline__ void prepare_gates(const DeltaChunkParams& p, const ChunkPlace& at, uint32_t chunk,
                                              DeltaChunkMemory& memory) {
  const uint32_t t = threadIdx.x % kLanes;
  float total = 0.0F;
  float beta = 0.0F;
  if (chunk + t < at.num_rows) {
    const uint64_t row = at.first_row + chunk + t;
    const float a = gpu::load_float(p.a, row * p.a_stride + at.head, p.a_is_bf16 != 0);
    const float rate = expf(pointer<const float>(p.A_log)[at.head]);
    total = -rate * gpu::softplus(a + pointer<const float>(p.dt_bias)[at.head]);
    beta = gpu::sigmoid(gpu::load_float(p.b, row * p.b_stride + at.head, p.b_is_bf16 != 0));
  }
#pragma unroll
  for (uint32_t distance = 1; distance < kLanes; distance *= 2) {
    const float below = gpu::lane_up(total, distance);
    if (t >= distance) total += below;
  }
  memory.log_decay[t] = total;
  memory.beta[t] = beta;
}

/// A warp's sixteen rows of the state, all columns of the work group: rows lane / 4, + 8; columns lane % 4 * 2, + 1 of each
/// block.
struct StateRows {
  float block[kColumnBlocks][4];

  /// Calls use(key, column of the work group, two elements) for each pair of neighbours.
  template <class Use>
  __device__ __forceinline__ void for_each_pair(Use use) {
    const uint32_t lane = threadIdx.x % kLanes;
    const uint32_t key = threadIdx.x / kLanes * 16 + lane / 4;
#pragma unroll
    for (uint32_t j = 0; j < kColumnBlocks; ++j) {
      use(key, j * 8 + lane % 4 * 2, block[j][0], block[j][1]);
      use(key + 8, j * 8 + lane % 4 * 2, block[j][2], block[j][3]);
    }
  }
};

/// Where a head's state begins.
__device__ __forceinline__ float* state_of(const DeltaChunkParams& p, const ChunkPlace& at) {
  return pointer<float>(p.state) + (uint64_t{at.slot} * p.num_value_heads + at.head) * p.key_dim * p.value_dim + at.first_column;
}

__device__ __forceinline__ void load_state(const DeltaChunkParams& p, const ChunkPlace& at, StateRows& state) {
  const float* source = state_of(p, at);
  state.for_each_pair([&](uint32_t key, uint32_t column, float& first, float& second) {
    const bool exists = key < p.key_dim && at.first_column + column < p.value_dim;
    const float2 two =
        exists ? *reinterpret_cast<const float2*>(source + uint64_t{key} * p.value_dim + column) : make_float2(0.0F, 0.0F);
    first = two.x;
    second = two.y;
  });
}

/// Adds the recorded rows that were accepted, as the exact kernels do.
__device__ __forceinline__ void commit_rows(const DeltaChunkParams& p, const ChunkPlace& at, StateRows& state) {
  for (uint32_t row = 0; row < at.num_commit; ++row) {
    const uint64_t record = (uint64_t{at.slot} * p.record_rows + row) * p.num_value_heads + at.head;
    const float decay = pointer<const float>(p.decay_record)[record];
    const float* keys = pointer<const float>(p.key_record) + record * p.key_dim;
    const float* delta = pointer<const float>(p.delta_record) + record * p.value_dim + at.first_column;
    state.for_each_pair([&](uint32_t key, uint32_t column, float& first, float& second) {
      if (key >= p.key_dim || at.first_column + column >= p.value_dim) return;
      first = fmaf(keys[key], delta[column], decay * first);
      second = fmaf(keys[key], delta[column + 1], decay * second);
    });
  }
}

__device__ __forceinline__ void store_state(const DeltaChunkParams& p, const ChunkPlace& at, StateRows& state) {
  float* target = state_of(p, at);
  state.for_each_pair([&](uint32_t key, uint32_t column, float first, float second) {
    if (key >= p.key_dim || at.first_column + column >= p.value_dim) return;
    *reinterpret_cast<float2*>(target + uint64_t{key} * p.value_dim + column) = make_float2(first, second);
  });
}

__device__ __forceinline__ void share_state(StateRows& state, DeltaChunkMemory& memory) {
  state.for_each_pair([&](uint32_t key, uint32_t column, float first, float second) {
    SplitPair(first, second).store(memory.state[0], memory.state[1], key * kDeltaColumnStride + column);
  });
}

/// Warp w: rows w / 2 * 16 .. of keys and queries by sixteen keys (w % 2) and by sixteen columns of the state.
struct RowProducts {
  float scores[2][4]{};
  float from_state[2][4]{};

  __device__ __forceinline__ void add(const DeltaChunkMemory& memory) {
    const uint32_t row = threadIdx.x / kLanes / 2 * 16;
    const uint32_t half = threadIdx.x / kLanes % 2 * 16;
#pragma unroll
    for (uint32_t k = 0; k < kDeltaChunkDim; k += 16) {
      const SplitBlocks rows = split_blocks<true>(memory.rows, row, k, kDeltaKeyStride);
      const SplitBlocks keys = split_blocks<false>(memory.rows, half, k, kDeltaKeyStride);
      const SplitBlocks state = split_blocks_transposed<true>(memory.state, k, half, kDeltaColumnStride);
#pragma unroll
      for (uint32_t j = 0; j < 2; ++j) {
        multiply_split(scores[j], rows, keys, j);
        multiply_split(from_state[j], rows, state, j);
      }
    }
  }
};

/// Warps of keys: the triangular system. Warps of queries: their scores, and what they see of the state.
__device__ __forceinline__ void share_products(const DeltaChunkParams& p, const ChunkPlace& at, uint32_t chunk,
                                               RowProducts& products, DeltaChunkMemory& memory) {
  const uint32_t warp = threadIdx.x / kLanes;
  const uint32_t lane = threadIdx.x % kLanes;
  const bool is_query = warp >= kWarps / 2;
  const uint64_t value_at = 2 * uint64_t{p.num_key_heads} * p.key_dim + uint64_t{at.head} * p.value_dim + at.first_column;
#pragma unroll
  for (uint32_t below = 0; below < 2; ++below) {
    const uint32_t t = warp / 2 % 2 * 16 + lane / 4 + below * 8;
    const float log_decay = memory.log_decay[t];
    const float beta = memory.beta[t];
    const float since_start = expf(log_decay);
#pragma unroll
    for (uint32_t j = 0; j < 2; ++j) {
      const uint32_t column = warp % 2 * 16 + j * 8 + lane % 4 * 2;  // of the chunk's rows, and of the state
      float score[2];
#pragma unroll
      for (uint32_t e = 0; e < 2; ++e) {
        const uint32_t i = column + e;
        const bool counts = is_query ? i <= t : i < t;
        score[e] = counts ? expf(log_decay - memory.log_decay[i]) * products.scores[j][2 * below + e] : 0.0F;
      }
      float(&seen)[4] = products.from_state[j];
      if (is_query) {
        SplitPair(score[0], score[1]).store(memory.scores[0], memory.scores[1], t * kDeltaColumnStride + column);
        seen[2 * below] *= since_start;
        seen[2 * below + 1] *= since_start;
        continue;
      }
#pragma unroll
      for (uint32_t e = 0; e < 2; ++e) {
        memory.factors[column + e][t] = beta * score[e];
        const bool exists = chunk + t < at.num_rows && at.first_column + column + e < p.value_dim;
        const uint64_t index = (at.first_row + chunk + t) * p.qkv_stride + value_at + column + e;
        const float value = exists ? gpu::load_float(p.qkv, index, p.qkv_is_bf16 != 0) : 0.0F;
        memory.values[t][column + e] = beta * (value - since_start * seen[2 * below + e]);
      }
    }
  }
}

/// Four warps solve for delta, lane c its column c, each to store another of the four arrays that come of it.
__device__ __forceinline__ void solve(DeltaChunkMemory& memory) {
  const uint32_t warp = threadIdx.x / kLanes;
  const uint32_t lane = threadIdx.x % kLanes;
  float x[kDeltaChunk];
#pragma unroll
  for (uint32_t t = 0; t < kDeltaChunk; ++t) x[t] = memory.values[t][lane];
#pragma unroll
  for (uint32_t i = 0; i + 1 < kDeltaChunk; ++i) {
#pragma unroll
    for (uint32_t t = (i + 1) / 4 * 4; t < kDeltaChunk; t += 4) {
      const float4 factors = *reinterpret_cast<const float4*>(&memory.factors[i][t]);
      const float four[4] = {factors.x, factors.y, factors.z, factors.w};
#pragma unroll
      for (uint32_t e = 0; e < 4; ++e) {
        if (t + e > i) x[t + e] = fmaf(-four[e], x[i], x[t + e]);
      }
    }
  }
  const bool is_remaining = warp >= 2;
  const bool is_lower = warp % 2 != 0;
  uint16_t* target = (is_remaining ? memory.remaining : memory.delta)[is_lower ? 1 : 0];
  const float end = memory.log_decay[kDeltaChunk - 1];
#pragma unroll
  for (uint32_t t = 0; t < kDeltaChunk; ++t) {
    const float value = is_remaining ? expf(end - memory.log_decay[t]) * x[t] : x[t];
    const SplitPair parts(value, 0.0F);
    target[t * kDeltaColumnStride + lane] = static_cast<uint16_t>(is_lower ? parts.lower : parts.upper);
  }
}

/// Warps of queries: what they see of the chunk's own rows, and the outputs.
__device__ __forceinline__ void write_outputs(const DeltaChunkParams& p, const ChunkPlace& at, uint32_t chunk,
                                              RowProducts& products, const DeltaChunkMemory& memory) {
  const uint32_t warp = threadIdx.x / kLanes;
  const uint32_t lane = threadIdx.x % kLanes;
  const uint32_t row = warp / 2 % 2 * 16;
  const uint32_t half = warp % 2 * 16;
#pragma unroll
  for (uint32_t k = 0; k < kDeltaChunk; k += 16) {
    const SplitBlocks scores = split_blocks<true>(memory.scores, row, k, kDeltaColumnStride);
    const SplitBlocks delta = split_blocks_transposed<true>(memory.delta, k, half, kDeltaColumnStride);
#pragma unroll
    for (uint32_t j = 0; j < 2; ++j) multiply_split(products.from_state[j], scores, delta, j);
  }
#pragma unroll
  for (uint32_t below = 0; below < 2; ++below) {
    const uint32_t t = row + lane / 4 + below * 8;
    if (chunk + t >= at.num_rows) continue;
#pragma unroll
    for (uint32_t j = 0; j < 2; ++j) {
      const uint32_t column = at.first_column + half + j * 8 + lane % 4 * 2;
      if (column >= p.value_dim) continue;
      const uint64_t index = (at.first_row + chunk + t) * p.out_stride + uint64_t{at.head} * p.value_dim + column;
      gpu::store_float(p.out, index, products.from_state[j][2 * below], p.out_is_bf16 != 0);
      gpu::store_float(p.out, index + 1, products.from_state[j][2 * below + 1], p.out_is_bf16 != 0);
    }
  }
}

/// Warp w: rows w * 16 .. of the state.
__device__ __forceinline__ void advance_state(const DeltaChunkMemory& memory, StateRows& state) {
  const uint32_t key = threadIdx.x / kLanes * 16;
  const float kept = expf(memory.log_decay[kDeltaChunk - 1]);
#pragma unroll
  for (uint32_t j = 0; j < kColumnBlocks; ++j) {
#pragma unroll
    for (uint32_t e = 0; e < 4; ++e) state.block[j][e] *= kept;
  }
#pragma unroll
  for (uint32_t i = 0; i < kDeltaChunk; i += 16) {
    const SplitBlocks keys = split_blocks_transposed<false>(memory.rows, i, key, kDeltaKeyStride);
#pragma unroll
    for (uint32_t j = 0; j < kColumnBlocks; j += 2) {
      const SplitBlocks remaining = split_blocks_transposed<true>(memory.remaining, i, j * 8, kDeltaColumnStride);
      multiply_split(state.block[j], keys, remaining, 0);
      multiply_split(state.block[j + 1], keys, remaining, 1);
    }
  }
}

__global__ void __launch_bounds__(kDeltaChunkThreads, 2) delta_chunk(const DeltaChunkParams p) {
  gpu::begin_kernel();
  extern __shared__ __align__(16) uint8_t group_memory[];
  auto& memory = *reinterpret_cast<DeltaChunkMemory*>(group_memory);
  const ChunkPlace at = chunk_place(p);
  if (at.num_rows == 0) return;
  const uint32_t warp = threadIdx.x / kLanes;
  StateRows state;
  load_state(p, at, state);
  commit_rows(p, at, state);
  share_state(state, memory);
  RowLoad rows;
  rows.load(p, at, 0);
  for (uint32_t chunk = 0; chunk < at.num_rows; chunk += kDeltaChunk) {
    rows.store(p, memory);
    if (warp == 0) prepare_gates(p, at, chunk, memory);
    __syncthreads();
    rows.load(p, at, chunk + kDeltaChunk);
    RowProducts products;
    products.add(memory);
    share_products(p, at, chunk, products, memory);
    __syncthreads();
    if (warp < 4) solve(memory);
    __syncthreads();
    if (warp >= kWarps / 2) write_outputs(p, at, chunk, products, memory);
    advance_state(memory, state);
    share_state(state, memory);
    __syncthreads();  // keys and deltas have been used
  }
  store_state(p, at, state);
}

__global__ void __launch_bounds__(kDeltaNormThreads) delta_norm(const DeltaNormParams p) {
  gpu::begin_kernel();
  const uint32_t row = blockIdx.y;
  const uint32_t head = blockIdx.x * (kDeltaNormThreads / kLanes) + threadIdx.x / kLanes;
  if (head >= p.num_value_heads) return;
  if (static_cast<int32_t>(row) >= pointer<const int32_t>(p.query_start_loc)[p.num_sequences]) return;
  const float* x = pointer<const float>(p.x) + (uint64_t{row} * p.num_value_heads + head) * p.value_dim;
  const uint64_t z = row * p.z_stride + uint64_t{head} * p.value_dim;
  const uint64_t out = row * p.out_stride + uint64_t{head} * p.value_dim;
  float sum = 0.0F;
  for (uint32_t i = threadIdx.x % kLanes; i < p.value_dim; i += kLanes) sum = fmaf(x[i], x[i], sum);
  const float factor = 1.0F / sqrtf(gpu::lane_sum(sum) / static_cast<float>(p.value_dim) + p.eps);
  for (uint32_t i = threadIdx.x % kLanes; i < p.value_dim; i += kLanes) {
    const float gate = gpu::silu(gpu::load_float(p.z, z + i, p.z_is_bf16 != 0));
    gpu::store_float(p.out, out + i, pointer<const float>(p.norm)[i] * (x[i] * factor) * gate, p.out_is_bf16 != 0);
  }
}

}  // namespace
}  // namespace foretoken::cuda
