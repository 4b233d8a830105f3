// A split of gated_attention on tensor cores, for the few rows of a decode or verify step: keys and values come once for all
// queries that share them. Queries are rows of the products' first operand, so none depends on those beside it. Queries are BF16,
// shares the sum of two BF16 numbers; scores, sums and mixed values are float32.
#pragma once

#include "backends/cuda/kernels/attention_split_params.h"
#include "backends/cuda/kernels/tensor_cores.cuh"
#include "backends/gpu/attention_rows.inl"

namespace foretoken::cuda {
namespace {

using gpu::GatedAttentionParams;
using gpu::kLanes;
using gpu::pointer;

constexpr uint32_t kSplitWarps = kSplitThreads / kLanes;
constexpr uint32_t kWarpKeys = kSplitKeys / kSplitWarps;
static_assert(kWarpKeys == 8);  // one block of a product
constexpr uint32_t kChunk = 8;  // BF16 elements of 16 bytes
constexpr uint64_t kNoKey = ~uint64_t{0};

/// Byte offset of 16-byte chunk `chunk` of row `row` in a tile of kRows rows: blocks of eight chunks, one after another.
template <uint32_t kRows>
FORETOKEN_DEVICE uint32_t tile_place(uint32_t row, uint32_t chunk) {
  return chunk / 8 * kRows * 128 + swizzled(row, chunk % 8);
}

/// The queries that a work group takes together, and the positions of the split.
struct SplitTile {
  uint32_t first;  // query, among those of the row group that share a key head
  uint32_t count;
  uint32_t begin;
  uint32_t end;
};

/// 16 bytes of a cache's elements as BF16; eight E4M3 codes, which BF16 holds exactly.
FORETOKEN_DEVICE uint4 codes_as_bf16(uint2 codes) {
  const auto two = [](uint32_t word, uint32_t shift) {
    const float2 values = gpu::decode_e4m3x2(word >> shift & 0xffffU);
    return pack_bf16(values.x, values.y);
  };
  return make_uint4(two(codes.x, 0), two(codes.x, 16), two(codes.y, 0), two(codes.y, 16));
}

/// First element of a position's key or value in the caches.
FORETOKEN_DEVICE uint64_t cache_index(const GatedAttentionParams& p, const int32_t* block_table, uint32_t position) {
  // A block that does not exist would be the caller's mistake; its keys are then those of block 0.
  const auto block = static_cast<uint32_t>(block_table[position / p.block_size]);
  const uint64_t slot = uint64_t{block < p.num_blocks ? block : 0} * p.block_size + position % p.block_size;
  return (slot * p.num_key_heads + blockIdx.y) * p.head_dim;
}

/// Finds keys [position, position + kSplitKeys) of the caches.
template <uint32_t kDim, uint32_t kTiles>
FORETOKEN_DEVICE void find_keys(const GatedAttentionParams& p, const int32_t* block_table, uint32_t position, uint32_t end,
                                SplitMemory<kDim, kTiles>& memory) {
  if (threadIdx.x >= kSplitKeys) return;
  const uint32_t at = position + threadIdx.x;
  memory.offsets[threadIdx.x] = at < end ? cache_index(p, block_table, at) : kNoKey;
}

/// Begins to copy the keys that were found, or their values; those that do not exist become 0, so that nothing that
/// memory holds there meets a share of 0.
template <uint32_t kDim, uint32_t kTiles>
FORETOKEN_DEVICE void copy_keys(const GatedAttentionParams& p, uint64_t cache, const SplitMemory<kDim, kTiles>& memory,
                                uint8_t* target) {
  constexpr uint32_t kChunks = kDim / kChunk;
  const uint32_t chunk = threadIdx.x % kChunks;
#pragma unroll
  for (uint32_t u = 0; u < kSplitKeys * kChunks / kSplitThreads; ++u) {
    const uint32_t key = threadIdx.x / kChunks + u * (kSplitThreads / kChunks);
    auto* place = reinterpret_cast<uint4*>(target + tile_place<kSplitKeys>(key, chunk));
    const uint64_t offset = memory.offsets[key];
    if (offset == kNoKey) {
      *place = make_uint4(0, 0, 0, 0);
      continue;
    }
    const uint64_t index = offset + chunk * kChunk;
    if (p.cache_format == gpu::CacheFormat::kBF16) {
      copy_async(shared_address(place), cache + index * 2);
    } else {
      *place = codes_as_bf16(*pointer<const uint2>(cache + index));
    }
  }
}

/// Brings the first keys and values of a split near: nothing is read.
template <uint32_t kDim>
FORETOKEN_DEVICE void prefetch_keys(const GatedAttentionParams& p, const int32_t* block_table, uint32_t begin, uint32_t end) {
  const uint32_t element_bytes = p.cache_format == gpu::CacheFormat::kBF16 ? 2 : 1;
  const uint32_t lines = kDim * element_bytes / 128 > 0 ? kDim * element_bytes / 128 : 1;  // of a key
  for (uint32_t i = threadIdx.x; i < kSplitKeys * lines; i += kSplitThreads) {
    const uint32_t position = begin + i / lines;
    if (position >= end) return;
    const uint64_t offset = cache_index(p, block_table, position) * element_bytes + i % lines * 128;
    gpu::prefetch(pointer<const void>(p.k_cache + offset));
    gpu::prefetch(pointer<const void>(p.v_cache + offset));
  }
}

/// What a warp knows of kTiles * 16 queries: of query 16 t + l / 4 (+ 8) in lane l. It mixes columns warp * kDim / kSplitWarps on
/// of the values, and takes kWarpKeys of every kSplitKeys keys.
template <uint32_t kDim, uint32_t kTiles>
struct SplitQueries {
  static constexpr uint32_t kBlocks = kDim / kSplitWarps / 8;  // of eight columns
  static constexpr uint32_t kQueries = kTiles * 16;
  float mixed[kTiles][kBlocks][4];
  float maximum[kTiles][2];
  float sum[kTiles][2];  // of this lane's keys
  uint32_t length[kTiles][2];

  FORETOKEN_DEVICE static uint32_t query_of(uint32_t tile, uint32_t half) {
    return tile * 16 + threadIdx.x % kLanes / 4 + half * 8;
  }

  FORETOKEN_DEVICE SplitQueries(const gpu::RowGroup& rows, const SplitTile& tile, uint32_t heads) : mixed{}, sum{} {
#pragma unroll
    for (uint32_t t = 0; t < kTiles; ++t) {
#pragma unroll
      for (uint32_t half = 0; half < 2; ++half) {
        const uint32_t query = query_of(t, half);
        maximum[t][half] = -INFINITY;
        length[t][half] = query < tile.count ? rows.first_length + (tile.first + query) / heads : 0;
      }
    }
  }

  /// Two sums, of every other sixteen elements, added at the end.
  FORETOKEN_DEVICE static void score(const SplitMemory<kDim, kTiles>& memory, float (&scores)[kTiles][4]) {
    const uint32_t lane = threadIdx.x % kLanes;
    const uint32_t queries = shared_address(memory.queries);
    const uint32_t keys = shared_address(memory.keys);
    const uint32_t key = threadIdx.x / kLanes * kWarpKeys + lane % 8;
    float odd[kTiles][4] = {};
#pragma unroll
    for (uint32_t d = 0; d < kDim / 32; ++d) {
      uint32_t b[4];
      load_blocks(b, keys + tile_place<kSplitKeys>(key, d * 4 + lane / 8));
#pragma unroll
      for (uint32_t t = 0; t < kTiles; ++t) {
        uint32_t a[4];
        load_blocks(a, queries + tile_place<kQueries>(t * 16 + lane % 16, d * 4 + lane / 16));
        multiply(scores[t], a, b[0], b[1]);
        load_blocks(a, queries + tile_place<kQueries>(t * 16 + lane % 16, d * 4 + 2 + lane / 16));
        multiply(odd[t], a, b[2], b[3]);
      }
    }
#pragma unroll
    for (uint32_t t = 0; t < kTiles; ++t) {
#pragma unroll
      for (uint32_t i = 0; i < 4; ++i) scores[t][i] += odd[t][i];
    }
  }

  /// Scales the scores of the warp's keys, hides what a query does not see, and gives the warp's maxima to the others.
  FORETOKEN_DEVICE void give_maxima(uint32_t position, float scale, float (&scores)[kTiles][4],
                                    SplitMemory<kDim, kTiles>& memory) const {
    const uint32_t warp = threadIdx.x / kLanes;
    const uint32_t key = position + warp * kWarpKeys + threadIdx.x % 4 * 2;
#pragma unroll
    for (uint32_t t = 0; t < kTiles; ++t) {
#pragma unroll
      for (uint32_t half = 0; half < 2; ++half) {
        float& first = scores[t][2 * half];
        float& second = scores[t][2 * half + 1];
        first = key < length[t][half] ? first * scale : -INFINITY;
        second = key + 1 < length[t][half] ? second * scale : -INFINITY;
        float largest = fmaxf(first, second);
        largest = fmaxf(largest, gpu::lane_xor(largest, 1));
        largest = fmaxf(largest, gpu::lane_xor(largest, 2));
        if (threadIdx.x % 4 == 0) memory.parts[warp][query_of(t, half)] = largest;
      }
    }
  }

  /// Scores become shares, in memory too, and what was mixed so far is brought to the new maximum.
  FORETOKEN_DEVICE void share(const float (&scores)[kTiles][4], SplitMemory<kDim, kTiles>& memory) {
    const uint32_t warp = threadIdx.x / kLanes;
#pragma unroll
    for (uint32_t t = 0; t < kTiles; ++t) {
#pragma unroll
      for (uint32_t half = 0; half < 2; ++half) {
        const uint32_t query = query_of(t, half);
        float largest = maximum[t][half];
#pragma unroll
        for (uint32_t w = 0; w < kSplitWarps; ++w) largest = fmaxf(largest, memory.parts[w][query]);
        const float rescale = gpu::rescale_factor(maximum[t][half], largest);
        // A query that has seen no key yet has -inf on both sides, whose difference must not be taken.
        const float base = largest == -INFINITY ? 0.0F : largest;
        maximum[t][half] = largest;
        const float first = expf(scores[t][2 * half] - base);
        const float second = expf(scores[t][2 * half + 1] - base);
        sum[t][half] = fmaf(sum[t][half], rescale, first + second);
        const uint32_t place = swizzled(query, warp) + threadIdx.x % 4 * 4;
        const uint32_t larger = pack_bf16(first, second);
        const float first_rest = first - gpu::bits_to_float(larger << 16);
        const float second_rest = second - gpu::bits_to_float(larger & 0xffff0000U);
        *reinterpret_cast<uint32_t*>(memory.shares[0] + place) = larger;
        *reinterpret_cast<uint32_t*>(memory.shares[1] + place) = pack_bf16(first_rest, second_rest);
#pragma unroll
        for (uint32_t j = 0; j < kBlocks; ++j) {
          mixed[t][j][2 * half] *= rescale;
          mixed[t][j][2 * half + 1] *= rescale;
        }
      }
    }
  }

  FORETOKEN_DEVICE void mix(const SplitMemory<kDim, kTiles>& memory) {
    const uint32_t lane = threadIdx.x % kLanes;
    const uint32_t values = shared_address(memory.values);
#pragma unroll
    for (uint32_t k = 0; k < kSplitKeys / 32; ++k) {
      uint32_t a[kTiles][2][2][4];
#pragma unroll
      for (uint32_t part = 0; part < 2; ++part) {
        const uint32_t shares = shared_address(memory.shares[part]);
#pragma unroll
        for (uint32_t t = 0; t < kTiles; ++t) {
          load_blocks(a[t][part][0], shares + swizzled(t * 16 + lane % 16, k * 4 + lane / 16));
          load_blocks(a[t][part][1], shares + swizzled(t * 16 + lane % 16, k * 4 + 2 + lane / 16));
        }
      }
#pragma unroll
      for (uint32_t j = 0; j < kBlocks; ++j) {
        uint32_t b[4];
        load_blocks_transposed(b, values + tile_place<kSplitKeys>(k * 32 + lane, threadIdx.x / kLanes * kBlocks + j));
#pragma unroll
        for (uint32_t t = 0; t < kTiles; ++t) {
#pragma unroll
          for (uint32_t part = 0; part < 2; ++part) {
            multiply(mixed[t][j], a[t][part][0], b[0], b[1]);
            multiply(mixed[t][j], a[t][part][1], b[2], b[3]);
          }
        }
      }
    }
  }

  /// Partial results of the split, for gated_attention_combine.
  FORETOKEN_DEVICE void store(const GatedAttentionParams& p, const gpu::RowGroup& rows, const SplitTile& tile,
                              SplitMemory<kDim, kTiles>& memory) {
    const uint32_t warp = threadIdx.x / kLanes;
    const uint32_t heads = p.num_query_heads / p.num_key_heads;
#pragma unroll
    for (uint32_t t = 0; t < kTiles; ++t) {
#pragma unroll
      for (uint32_t half = 0; half < 2; ++half) {
        float part = sum[t][half] + gpu::lane_xor(sum[t][half], 1);
        part += gpu::lane_xor(part, 2);
        if (threadIdx.x % 4 == 0) memory.parts[warp][query_of(t, half)] = part;
      }
    }
    __syncthreads();
#pragma unroll
    for (uint32_t t = 0; t < kTiles; ++t) {
#pragma unroll
      for (uint32_t half = 0; half < 2; ++half) {
        const uint32_t query = query_of(t, half);
        if (query >= tile.count) continue;
        const uint32_t row = rows.first_row - p.first_row + (tile.first + query) / heads;
        const uint32_t head = blockIdx.y * heads + (tile.first + query) % heads;
        const uint64_t part = (uint64_t{row} * p.num_query_heads + head) * p.num_splits + blockIdx.x;
        float* target = pointer<float>(p.partial) + part * kDim + warp * kBlocks * 8 + threadIdx.x % 4 * 2;
#pragma unroll
        for (uint32_t j = 0; j < kBlocks; ++j) {
          *reinterpret_cast<float2*>(target + j * 8) = make_float2(mixed[t][j][2 * half], mixed[t][j][2 * half + 1]);
        }
        if (warp != 0 || threadIdx.x % 4 != 0) continue;
        float total = memory.parts[0][query];
#pragma unroll
        for (uint32_t w = 1; w < kSplitWarps; ++w) total += memory.parts[w][query];
        pointer<float2>(p.partial_max)[part] = make_float2(maximum[t][half], total);
      }
    }
  }
};

/// Queries of a tile in BF16; those that do not exist are 0.
template <uint32_t kDim, uint32_t kTiles>
FORETOKEN_DEVICE void copy_queries(const GatedAttentionParams& p, const gpu::RowGroup& rows, const SplitTile& tile,
                                   SplitMemory<kDim, kTiles>& memory) {
  constexpr uint32_t kQueries = kTiles * 16;
  constexpr uint32_t kChunks = kDim / kChunk;
  for (uint32_t i = threadIdx.x; i < kQueries * kChunks; i += kSplitThreads) {
    const uint32_t query = i / kChunks;
    const uint32_t chunk = i % kChunks;
    uint4 eight = make_uint4(0, 0, 0, 0);
    if (query < tile.count) {
      const gpu::QueryIndex at = gpu::query_index(p, blockIdx.y, tile.first + query);
      eight = *pointer<const uint4>(p.q + ((rows.first_row + at.row) * p.q_stride + at.head * kDim + chunk * kChunk) * 2);
    }
    *reinterpret_cast<uint4*>(memory.queries + tile_place<kQueries>(query, chunk)) = eight;
  }
}

/// The queries of a tile over the positions of its split.
template <uint32_t kDim, uint32_t kTiles>
FORETOKEN_DEVICE void attend_tile(const GatedAttentionParams& p, const gpu::RowGroup& rows, const SplitTile& tile,
                                  SplitMemory<kDim, kTiles>& memory) {
  const float scale = p.cache_format == gpu::CacheFormat::kE4M3 ? p.scale * *pointer<const float>(p.k_scale) : p.scale;
  find_keys(p, rows.block_table, tile.begin, tile.end, memory);
  __syncthreads();
  copy_keys(p, p.k_cache, memory, memory.keys);
  commit_copies();
  copy_keys(p, p.v_cache, memory, memory.values);
  commit_copies();
  copy_queries(p, rows, tile, memory);
  SplitQueries<kDim, kTiles> queries(rows, tile, p.num_query_heads / p.num_key_heads);
#pragma unroll 1
  for (uint32_t position = tile.begin; position < tile.end; position += kSplitKeys) {
    float scores[kTiles][4] = {};
    wait_copies<1>();
    __syncthreads();
    find_keys(p, rows.block_table, position + kSplitKeys, tile.end, memory);
    queries.score(memory, scores);
    queries.give_maxima(position, scale, scores, memory);
    __syncthreads();
    const bool has_more = position + kSplitKeys < tile.end;
    if (has_more) copy_keys(p, p.k_cache, memory, memory.keys);
    commit_copies();
    queries.share(scores, memory);
    wait_copies<1>();
    __syncthreads();
    queries.mix(memory);
    __syncthreads();
    if (has_more) copy_keys(p, p.v_cache, memory, memory.values);
    commit_copies();
  }
  wait_copies<0>();
  queries.store(p, rows, tile, memory);
}

/// Splits of a row group: rows whose splits are equally long are taken together.
template <uint32_t kDim, uint32_t kTiles>
__global__ void __launch_bounds__(kSplitThreads, 2) attention_split(const GatedAttentionParams p) {
  gpu::allow_next();
  extern __shared__ __align__(1024) uint8_t bytes[];
  auto& memory = *reinterpret_cast<SplitMemory<kDim, kTiles>*>(bytes);
  const gpu::RowGroup rows = gpu::row_group(p, blockIdx.z, p.first_row);
  const uint32_t heads = p.num_query_heads / p.num_key_heads;
  const uint32_t longest = rows.first_length + rows.num_rows - 1;
  const uint32_t first_size = gpu::split_size(rows.first_length);
  if (rows.num_rows > 0) {
    const uint32_t begin = blockIdx.x * first_size;
    prefetch_keys<kDim>(p, rows.block_table, begin, gpu::smaller(begin + first_size, longest));
  }
  gpu::wait_for_previous();
  if (rows.num_rows == 0) return;
  for (uint32_t size = first_size; size <= gpu::split_size(longest); size *= 2) {
    const gpu::RowRange range = gpu::rows_of_size(rows, size);
    const uint32_t begin = blockIdx.x * size;
    const uint32_t last_length = rows.first_length + range.first + range.count - 1;
    if (range.count == 0 || begin >= last_length) continue;
    const uint32_t end = gpu::smaller(begin + size, last_length);
    const uint32_t last_query = (range.first + range.count) * heads;
    for (uint32_t first = range.first * heads; first < last_query; first += kTiles * 16) {
      __syncthreads();  // what was shared before has been used
      attend_tile<kDim, kTiles>(p, rows, {first, gpu::smaller(kTiles * 16, last_query - first), begin, end}, memory);
    }
  }
}

}  // namespace
}  // namespace foretoken::cuda
