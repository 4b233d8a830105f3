// gated_attention in prefill, on tensor cores: tiles of 64 queries by 64 keys, softmax as it goes (Dao et al., "FlashAttention",
// 2022). Queries, keys, values and shares are BF16, scores and sums float32. A query is one head of one row; those that share a
// key head lie side by side.
#pragma once

#include "backends/cuda/kernels/attention_prefill_params.h"
#include "backends/cuda/kernels/tensor_cores.cuh"
#include "backends/cuda/kernels/tile_product.cuh"
#include "backends/gpu/kernel_entry.h"

namespace foretoken::cuda {
namespace {

using gpu::CacheFormat;
using gpu::pointer;

/// Byte offset of 16-byte chunk `chunk` of row `row` in a tile of kDim BF16 columns.
template <uint32_t kDim>
__device__ __forceinline__ uint32_t chunk_place(uint32_t row, uint32_t chunk) {
  return row * kDim * 2 + ((chunk ^ (row & 7)) << 4);
}

/// The queries of a work group.
struct QueryTile {
  const int32_t* block_table;
  uint32_t first_row;     // of the sequence, in the call
  uint32_t first_query;   // of the tile, among those of the sequence and key head
  uint32_t num_queries;   // 0: nothing to do
  uint32_t first_length;  // positions that the sequence's first row attends to; the next ones see one more each
  uint32_t heads;         // that share a key head
  uint32_t max_length;

  [[nodiscard]] __device__ __forceinline__ uint32_t row_of(uint32_t query) const { return (first_query + query) / heads; }
  [[nodiscard]] __device__ __forceinline__ uint32_t head_of(uint32_t query) const { return (first_query + query) % heads; }
  /// Positions that a query attends to.
  [[nodiscard]] __device__ __forceinline__ uint32_t length_of(uint32_t query) const {
    return gpu::smaller(first_length + row_of(query), max_length);
  }
};

__device__ __forceinline__ QueryTile query_tile(const AttentionPrefillParams& p) {
  const auto* starts = pointer<const int32_t>(p.query_start_loc);
  const uint32_t sequence = blockIdx.z;
  const int32_t begin = starts[sequence];
  const int32_t count = starts[sequence + 1] - begin;
  const int32_t before = pointer<const int32_t>(p.seq_lens)[sequence] - count;
  QueryTile tile{};
  tile.heads = p.num_query_heads / p.num_key_heads;
  tile.first_query = (gridDim.x - 1 - blockIdx.x) * kPrefillQueries;  // those that see most begin first
  const uint32_t queries = count > 0 ? static_cast<uint32_t>(count) * tile.heads : 0;
  if (before < 0 || queries <= tile.first_query) return tile;
  tile.block_table = pointer<const int32_t>(p.block_table) + sequence * p.block_table_stride;
  tile.first_row = static_cast<uint32_t>(begin);
  tile.num_queries = gpu::smaller(queries - tile.first_query, kPrefillQueries);
  tile.first_length = static_cast<uint32_t>(before) + 1;
  tile.max_length = p.max_seq_len;
  return tile;
}

/// Eight elements of float32 or BF16 as BF16.
__device__ __forceinline__ uint4 load_eight(uint64_t base, uint64_t index, bool is_bf16) {
  if (is_bf16) return *pointer<const uint4>(base + index * 2);
  const auto* source = pointer<const float4>(base + index * 4);
  const float4 low = source[0];
  const float4 high = source[1];
  return make_uint4(pack_bf16(low.x, low.y), pack_bf16(low.z, low.w), pack_bf16(high.x, high.y), pack_bf16(high.z, high.w));
}

/// Eight E4M3 codes as BF16, which holds them exactly.
__device__ __forceinline__ uint4 load_eight_codes(uint64_t base, uint64_t index) {
  const uint2 codes = *pointer<const uint2>(base + index);
  const auto two = [](uint32_t word, uint32_t shift) {
    const float2 values = gpu::decode_e4m3x2(word >> shift & 0xffffU);
    return pack_bf16(values.x, values.y);
  };
  return make_uint4(two(codes.x, 0), two(codes.x, 16), two(codes.y, 0), two(codes.y, 16));
}

template <uint32_t kDim>
__device__ __forceinline__ void load_queries(const AttentionPrefillParams& p, const QueryTile& tile, uint8_t* queries) {
  for (uint32_t i = threadIdx.x; i < kPrefillQueries * (kDim / 8); i += kAttentionPrefillThreads) {
    const uint32_t query = i / (kDim / 8);
    const uint32_t chunk = i % (kDim / 8);
    uint4 eight = make_uint4(0, 0, 0, 0);
    if (query < tile.num_queries) {
      const uint32_t head = blockIdx.y * tile.heads + tile.head_of(query);
      const uint64_t row = tile.first_row + tile.row_of(query);
      eight = load_eight(p.q, row * p.q_stride + head * kDim + chunk * 8, p.q_is_bf16 != 0);
    }
    *reinterpret_cast<uint4*>(queries + chunk_place<kDim>(query, chunk)) = eight;
  }
}

constexpr uint32_t kNoSlot = 0xffffffffU;

/// Finds keys [position, position + kPrefillKeys) in the caches; there is none from `end` on.
__device__ __forceinline__ void find_keys(const AttentionPrefillParams& p, const QueryTile& tile, uint32_t position, uint32_t end,
                                          uint32_t* slots) {
  if (threadIdx.x >= kPrefillKeys) return;
  const uint32_t at = position + threadIdx.x;
  uint32_t slot = kNoSlot;
  if (at < end) {
    // A block that does not exist would be the caller's mistake; its keys are then those of block 0.
    const auto block = static_cast<uint32_t>(tile.block_table[at / p.block_size]);
    slot = (block < p.num_blocks ? block : 0) * p.block_size + at % p.block_size;
  }
  slots[threadIdx.x] = slot;
}

/// Copies the keys or values at `slots` of a cache; those that are not there become 0, so that nothing that memory holds meets a
/// share of 0.
template <uint32_t kDim>
__device__ __forceinline__ void copy_keys(const AttentionPrefillParams& p, uint64_t cache, const uint32_t* slots,
                                          uint8_t* target) {
#pragma unroll 4
  for (uint32_t i = threadIdx.x; i < kPrefillKeys * (kDim / 8); i += kAttentionPrefillThreads) {
    const uint32_t key = i / (kDim / 8);
    const uint32_t chunk = i % (kDim / 8);
    const uint32_t slot = slots[key];
    auto* place = reinterpret_cast<uint4*>(target + chunk_place<kDim>(key, chunk));
    const uint64_t index = (uint64_t{slot} * p.num_key_heads + blockIdx.y) * kDim + chunk * 8;
    if (slot == kNoSlot) {
      *place = make_uint4(0, 0, 0, 0);
    } else if (p.cache_format == CacheFormat::kBF16) {
      copy_async(shared_address(place), cache + index * 2);
    } else if (p.cache_format == CacheFormat::kE4M3) {
      *place = load_eight_codes(cache, index);
    } else {
      *place = load_eight(cache, index, false);
    }
  }
  commit_copies();
}

/// A warp's sixteen queries: row l / 4 of them (first) and l / 4 + 8 (second) in lane l.
template <uint32_t kDim>
struct QueryState {
  static constexpr uint32_t kKeyBlocks = kPrefillKeys / 8;
  float mixed[kDim / 8][4];  // by blocks of eight elements
  float maximum[2];          // of the scores so far, times the factor of the exponent
  float sum[2];              // this lane's part
  uint32_t length[2];

  __device__ __forceinline__ explicit QueryState(const QueryTile& tile) : mixed{}, maximum{-INFINITY, -INFINITY}, sum{} {
    const uint32_t first = threadIdx.x / gpu::kLanes * 16 + threadIdx.x % gpu::kLanes / 4;
#pragma unroll
    for (uint32_t half = 0; half < 2; ++half) {
      const uint32_t query = first + half * 8;
      length[half] = query < tile.num_queries ? tile.length_of(query) : 0;
    }
  }

  __device__ __forceinline__ void score(uint32_t queries, uint32_t keys, float (&scores)[kKeyBlocks][4]) const {
    const uint32_t lane = threadIdx.x % gpu::kLanes;
    const uint32_t query = threadIdx.x / gpu::kLanes * 16 + lane % 16;
    const uint32_t key = lane % 8 + lane / 16 * 8;
#pragma unroll
    for (uint32_t d = 0; d < kDim / 16; ++d) {
      uint32_t a[4];
      load_blocks(a, queries + chunk_place<kDim>(query, d * 2 + lane / 16));
#pragma unroll
      for (uint32_t j = 0; j < kKeyBlocks; j += 2) {
        uint32_t b[4];
        load_blocks(b, keys + chunk_place<kDim>(j * 8 + key, d * 2 + lane / 8 % 2));
        multiply(scores[j], a, b[0], b[1]);
        multiply(scores[j + 1], a, b[2], b[3]);
      }
    }
  }

  /// Scores of the keys from `position` on become shares, and what was mixed so far is brought to the new maximum.
  __device__ __forceinline__ void share(uint32_t position, float factor, float (&scores)[kKeyBlocks][4]) {
#pragma unroll
    for (uint32_t half = 0; half < 2; ++half) {
      float largest = maximum[half];
#pragma unroll
      for (uint32_t j = 0; j < kKeyBlocks; ++j) {
#pragma unroll
        for (uint32_t e = 0; e < 2; ++e) {
          float& score = scores[j][2 * half + e];
          const uint32_t key = position + j * 8 + threadIdx.x % 4 * 2 + e;
          score = key < length[half] ? score * factor : -INFINITY;
          largest = fmaxf(largest, score);
        }
      }
      largest = fmaxf(largest, gpu::lane_xor(largest, 1));
      largest = fmaxf(largest, gpu::lane_xor(largest, 2));
      // A query that has seen no key yet has -inf on both sides, whose difference must not be taken.
      const float rescale = maximum[half] == largest ? 1.0F : exp2f(maximum[half] - largest);
      const float base = largest == -INFINITY ? 0.0F : largest;
      maximum[half] = largest;
      sum[half] *= rescale;
#pragma unroll
      for (uint32_t j = 0; j < kKeyBlocks; ++j) {
#pragma unroll
        for (uint32_t e = 0; e < 2; ++e) {
          float& score = scores[j][2 * half + e];
          score = exp2f(score - base);
          sum[half] += score;
        }
      }
#pragma unroll
      for (uint32_t j = 0; j < kDim / 8; ++j) {
        mixed[j][2 * half] *= rescale;
        mixed[j][2 * half + 1] *= rescale;
      }
    }
  }

  __device__ __forceinline__ void mix(uint32_t values, const float (&shares)[kKeyBlocks][4]) {
    const uint32_t lane = threadIdx.x % gpu::kLanes;
#pragma unroll
    for (uint32_t k = 0; k < kPrefillKeys / 16; ++k) {
      const float(&low)[4] = shares[2 * k];
      const float(&high)[4] = shares[2 * k + 1];
      const uint32_t a[4] = {pack_bf16(low[0], low[1]), pack_bf16(low[2], low[3]), pack_bf16(high[0], high[1]),
                             pack_bf16(high[2], high[3])};
#pragma unroll
      for (uint32_t j = 0; j < kDim / 8; j += 2) {
        uint32_t b[4];
        load_blocks_transposed(b, values + chunk_place<kDim>(k * 16 + lane % 16, j + lane / 16));
        multiply(mixed[j], a, b[0], b[1]);
        multiply(mixed[j + 1], a, b[2], b[3]);
      }
    }
  }

  __device__ __forceinline__ void store(const AttentionPrefillParams& p, const QueryTile& tile) {
    const float factor = p.cache_format == CacheFormat::kE4M3 ? *pointer<const float>(p.v_scale) : 1.0F;
    const uint32_t lane = threadIdx.x % gpu::kLanes;
#pragma unroll
    for (uint32_t half = 0; half < 2; ++half) {
      sum[half] += gpu::lane_xor(sum[half], 1);
      sum[half] += gpu::lane_xor(sum[half], 2);
      if (length[half] == 0) continue;
      const uint32_t query = threadIdx.x / gpu::kLanes * 16 + lane / 4 + half * 8;
      const uint32_t head = blockIdx.y * tile.heads + tile.head_of(query);
      const uint64_t row = tile.first_row + tile.row_of(query);
      const float share = factor / sum[half];
#pragma unroll
      for (uint32_t j = 0; j < kDim / 8; ++j) {
        const uint32_t d = j * 8 + lane % 4 * 2;
        const uint64_t gate = row * p.q_gate_stride + (2 * head + 1) * kDim + d;
        const bool is_bf16 = p.q_gate_is_bf16 != 0;
        const float first = mixed[j][2 * half] * share * gpu::sigmoid(gpu::load_float(p.q_gate, gate, is_bf16));
        const float second = mixed[j][2 * half + 1] * share * gpu::sigmoid(gpu::load_float(p.q_gate, gate + 1, is_bf16));
        store_pair(p.out, row * p.out_stride + head * kDim + d, make_float2(first, second), p.out_is_bf16 != 0, true, true);
      }
    }
  }
};

template <uint32_t kDim>
__global__ void __launch_bounds__(kAttentionPrefillThreads, 2) attention_prefill(const AttentionPrefillParams p) {
  gpu::begin_kernel();
  extern __shared__ __align__(1024) uint8_t queries[];
  uint8_t* keys = queries + kPrefillQueries * kDim * 2;
  uint8_t* values = keys + kPrefillKeys * kDim * 2;
  const QueryTile tile = query_tile(p);
  if (tile.num_queries == 0) return;
  const uint32_t end = tile.length_of(tile.num_queries - 1);
  constexpr float kLog2E = 1.44269504F;
  const float factor = p.scale * kLog2E * (p.cache_format == CacheFormat::kE4M3 ? *pointer<const float>(p.k_scale) : 1.0F);
  __shared__ uint32_t slots[2][kPrefillKeys];
  find_keys(p, tile, 0, end, slots[0]);
  load_queries<kDim>(p, tile, queries);
  __syncthreads();
  copy_keys<kDim>(p, p.k_cache, slots[0], keys);
  copy_keys<kDim>(p, p.v_cache, slots[0], values);
  QueryState<kDim> state(tile);
  uint32_t next = 1;
  for (uint32_t position = 0; position < end; position += kPrefillKeys) {
    float scores[kPrefillKeys / 8][4] = {};
    find_keys(p, tile, position + kPrefillKeys, end, slots[next]);
    wait_copies<1>();
    __syncthreads();
    state.score(shared_address(queries), shared_address(keys), scores);
    __syncthreads();
    copy_keys<kDim>(p, p.k_cache, slots[next], keys);
    state.share(position, factor, scores);
    wait_copies<1>();
    __syncthreads();
    state.mix(shared_address(values), scores);
    __syncthreads();
    copy_keys<kDim>(p, p.v_cache, slots[next], values);
    next ^= 1;
  }
  wait_copies<0>();
  state.store(p, tile);
}

template <uint32_t kDim>
gpu::KernelEntry attention_prefill_entry() {
  gpu::KernelEntry entry =
      gpu::kernel_entry("attention_prefill_d" + std::to_string(kDim), attention_prefill<kDim>, kAttentionPrefillThreads);
  entry.large_group_memory = true;
  return entry;
}

}  // namespace
}  // namespace foretoken::cuda
