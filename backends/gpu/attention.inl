// gated_attention (core/ops/gated_attention.h). A query is one head of one row. Each split of a row's context is computed from
// nothing, and the splits are merged in order, so the bits of a row depend neither on the rows beside it nor on who merges.
#pragma once

#include "backends/gpu/attention_merge.inl"
#include "backends/gpu/attention_tile.inl"

namespace foretoken::gpu {
namespace {

/// The queries that are computed together: numbers first .. first + kQueries of rows * heads per key head.
struct QueryTile {
  uint32_t first;
  uint32_t count;
};

/// Warp i loads query i, scaled.
FORETOKEN_DEVICE void load_queries(const GatedAttentionParams& p, const RowGroup& rows, uint32_t key_head, QueryTile tile,
                                   AttentionScratch& scratch) {
  const float factor = p.cache_format == CacheFormat::kE4M3 ? p.scale * *pointer<const float>(p.k_scale) : p.scale;
  const uint32_t i = threadIdx.x / kLanes;
  if (i >= tile.count) return;
  const QueryIndex at = query_index(p, key_head, tile.first + i);
  const uint64_t source = (rows.first_row + at.row) * p.q_stride + uint64_t{at.head} * p.head_dim;
  with_element(p.q_is_bf16, [&](auto element) {
    float elements[kMaxAttentionHeadDim / kLanes];
#pragma unroll
    for (uint32_t u = 0; u < kMaxAttentionHeadDim / kLanes; ++u) {
      const uint32_t d = threadIdx.x % kLanes + u * kLanes;
      elements[u] = d < p.head_dim ? element.load(p.q, source + d) : 0.0F;
    }
#pragma unroll
    for (uint32_t u = 0; u < kMaxAttentionHeadDim / kLanes; ++u) {
      const uint32_t d = threadIdx.x % kLanes + u * kLanes;
      if (d < p.head_dim) scratch.queries[i][d] = elements[u] * factor;
    }
  });
}

/// Finds keys [position, position + count) of the caches.
FORETOKEN_DEVICE void find_keys(const GatedAttentionParams& p, const RowGroup& rows, uint32_t key_head, uint32_t position,
                                uint32_t count, AttentionScratch& scratch) {
  if (threadIdx.x < count) {
    const uint32_t at = position + threadIdx.x;
    // A block that does not exist would be the caller's mistake; its keys are then those of block 0.
    const auto block = static_cast<uint32_t>(rows.block_table[at / p.block_size]);
    const uint64_t slot = uint64_t{block < p.num_blocks ? block : 0} * p.block_size + at % p.block_size;
    scratch.offsets[threadIdx.x] = (slot * p.num_key_heads + key_head) * p.head_dim;
  }
  __syncthreads();
}

/// Maximum and sum of a query over the keys of its split so far. Warp i has those of query i.
struct Running {
  float maximum;
  float sum;
};

/// Thread (query, key): the score, then the query's shares of these keys.
FORETOKEN_DEVICE void score_keys(const GatedAttentionParams& p, const RowGroup& rows, uint32_t key_head, QueryTile tile,
                                 uint32_t position, uint32_t count, AttentionScratch& scratch, Running& running) {
  const uint32_t i = threadIdx.x / kKeys;
  const uint32_t j = threadIdx.x % kKeys;
  if (i < tile.count) {
    const QueryIndex at = query_index(p, key_head, tile.first + i);
    float score = -INFINITY;
    if (j < count && position + j < rows.first_length + at.row) {
      const float* key = scratch.tile + j * kTileStride;
      float part[4] = {};
      uint32_t d = 0;
      for (; d + 4 <= p.head_dim; d += 4) {
#pragma unroll
        for (uint32_t u = 0; u < 4; ++u) part[u] = fmaf(scratch.queries[i][d + u], key[d + u], part[u]);
      }
      for (; d < p.head_dim; ++d) part[0] = fmaf(scratch.queries[i][d], key[d], part[0]);
      score = (part[0] + part[1]) + (part[2] + part[3]);
    }
    const float maximum = fmaxf(running.maximum, lane_max(score));
    // A query may have no key among these: then nothing changes, and -inf - -inf must not be taken.
    const float share = score == -INFINITY ? 0.0F : expf(score - maximum);
    const float rescale = running.maximum == maximum ? 1.0F : expf(running.maximum - maximum);
    running = {maximum, fmaf(running.sum, rescale, lane_sum(share))};
    scratch.shares[i][j] = share;
    if (j == 0) scratch.rescale[i] = rescale;
  }
  __syncthreads();
}

/// Thread d: adds element d of the values, shared out, to what each query has.
FORETOKEN_DEVICE void add_values(const GatedAttentionParams& p, const RowGroup& rows, uint32_t key_head, QueryTile tile,
                                 uint32_t position, uint32_t count, const AttentionScratch& scratch, float (&mixed)[kQueries]) {
  uint32_t visible[kQueries];  // keys of these that each query sees: what it must not see may hold anything
#pragma unroll
  for (uint32_t i = 0; i < kQueries; ++i) {
    const uint32_t end = i < tile.count ? rows.first_length + query_index(p, key_head, tile.first + i).row : 0;
    visible[i] = end > position ? smaller(end - position, count) : 0;
    if (i < tile.count) mixed[i] *= scratch.rescale[i];
  }
  if (threadIdx.x >= p.head_dim) return;
#pragma unroll 2
  for (uint32_t j = 0; j < count; ++j) {
    const float value = scratch.tile[j * kTileStride + threadIdx.x];
#pragma unroll
    for (uint32_t i = 0; i < kQueries; ++i) {
      if (j < visible[i]) mixed[i] = fmaf(scratch.shares[i][j], value, mixed[i]);
    }
  }
}

/// The queries of a tile over positions [begin, end): `mixed` holds element threadIdx.x of each, not yet divided by the sum.
template <class Cache>
FORETOKEN_DEVICE void attend_split(const GatedAttentionParams& p, const RowGroup& rows, uint32_t key_head, QueryTile tile,
                                   uint32_t begin, uint32_t end, AttentionScratch& scratch, float (&mixed)[kQueries]) {
  Running running{-INFINITY, 0.0F};
#pragma unroll
  for (uint32_t i = 0; i < kQueries; ++i) mixed[i] = 0.0F;
  const bool whole_vectors = p.head_dim % Cache::kPerVector == 0 && (p.k_cache | p.v_cache) % sizeof(uint4) == 0;
  for (uint32_t position = begin; position < end; position += kKeys) {
    const uint32_t count = smaller(kKeys, end - position);
    __syncthreads();  // the tile before has been used
    find_keys(p, rows, key_head, position, count, scratch);
    TileVectors<Cache> values;
    if (whole_vectors) {
      TileVectors<Cache> keys;
      keys.load(p.k_cache, p.head_dim, count, scratch);
      values.load(p.v_cache, p.head_dim, count, scratch);
      keys.store(p.head_dim, count, scratch);
    } else {
      copy_tile<Cache>(p.k_cache, p.head_dim, count, scratch);
    }
    __syncthreads();
    score_keys(p, rows, key_head, tile, position, count, scratch, running);
    if (whole_vectors) {
      values.store(p.head_dim, count, scratch);
    } else {
      copy_tile<Cache>(p.v_cache, p.head_dim, count, scratch);
    }
    __syncthreads();
    add_values(p, rows, key_head, tile, position, count, scratch, mixed);
  }
  const uint32_t i = threadIdx.x / kLanes;
  if (i < tile.count && threadIdx.x % kLanes == 0) {
    scratch.maximum[i] = running.maximum;
    scratch.sum[i] = running.sum;
  }
  __syncthreads();
}

template <class Cache>
FORETOKEN_DEVICE void attend_and_store_split(const GatedAttentionParams& p, AttentionScratch& scratch) {
  const uint32_t split = blockIdx.x;
  const uint32_t key_head = blockIdx.y;
  const RowGroup rows = row_group(p, blockIdx.z, p.first_row);
  if (rows.num_rows == 0) return;
  const uint32_t heads = p.num_query_heads / p.num_key_heads;
  const uint32_t largest = split_size(rows.first_length + rows.num_rows - 1);
  for (uint32_t size = split_size(rows.first_length); size <= largest; size *= 2) {
    const RowRange range = rows_of_size(rows, size);
    const uint32_t begin = split * size;
    const uint32_t last_length = rows.first_length + range.first + range.count - 1;
    if (range.count == 0 || begin >= last_length) continue;
    const uint32_t end = smaller(begin + size, last_length);
    const uint32_t last_query = (range.first + range.count) * heads;
    for (uint32_t first = range.first * heads; first < last_query; first += kQueries) {
      const QueryTile tile{first, smaller(kQueries, last_query - first)};
      float mixed[kQueries];
      __syncthreads();
      load_queries(p, rows, key_head, tile, scratch);
      attend_split<Cache>(p, rows, key_head, tile, begin, end, scratch, mixed);
#pragma unroll
      for (uint32_t i = 0; i < kQueries; ++i) {
        if (i >= tile.count) continue;
        const QueryIndex at = query_index(p, key_head, first + i);
        const uint64_t part =
            (uint64_t{rows.first_row - p.first_row + at.row} * p.num_query_heads + at.head) * p.num_splits + split;
        if (threadIdx.x < p.head_dim) pointer<float>(p.partial)[part * p.head_dim + threadIdx.x] = mixed[i];
        if (threadIdx.x == 0) {
          pointer<float>(p.partial_max)[part * 2] = scratch.maximum[i];
          pointer<float>(p.partial_max)[part * 2 + 1] = scratch.sum[i];
        }
      }
    }
  }
}

__global__ void __launch_bounds__(kAttentionThreads) gated_attention_split(const GatedAttentionParams p) {
  begin_kernel();
  __shared__ AttentionScratch scratch;
  with_cache(p.cache_format, [&](auto cache) { attend_and_store_split<decltype(cache)>(p, scratch); });
}

template <class Cache>
FORETOKEN_DEVICE void attend_rows(const GatedAttentionParams& p, AttentionScratch& scratch) {
  const uint32_t key_head = blockIdx.y;
  const RowGroup rows = row_group(p, blockIdx.z, blockIdx.x * kAttentionRows);
  if (rows.num_rows == 0) return;
  const uint32_t heads = p.num_query_heads / p.num_key_heads;
  const uint32_t largest = split_size(rows.first_length + rows.num_rows - 1);
  for (uint32_t size = split_size(rows.first_length); size <= largest; size *= 2) {
    const RowRange range = rows_of_size(rows, size);
    if (range.count == 0) continue;
    const uint32_t last_length = rows.first_length + range.first + range.count - 1;
    const uint32_t last_query = (range.first + range.count) * heads;
    for (uint32_t first = range.first * heads; first < last_query; first += kQueries) {
      const QueryTile tile{first, smaller(kQueries, last_query - first)};
      Merged merged[kQueries];
#pragma unroll
      for (uint32_t i = 0; i < kQueries; ++i) merged[i] = Merged::nothing();
      __syncthreads();
      load_queries(p, rows, key_head, tile, scratch);
      for (uint32_t begin = 0; begin < last_length; begin += size) {
        float mixed[kQueries];
        attend_split<Cache>(p, rows, key_head, tile, begin, smaller(begin + size, last_length), scratch, mixed);
#pragma unroll
        for (uint32_t i = 0; i < kQueries; ++i) {
          if (i >= tile.count) continue;
          const uint32_t length = rows.first_length + query_index(p, key_head, first + i).row;
          if (begin < length) merged[i].add(mixed[i], scratch.maximum[i], scratch.sum[i]);
        }
      }
#pragma unroll
      for (uint32_t i = 0; i < kQueries; ++i) {
        if (i >= tile.count || threadIdx.x >= p.head_dim) continue;
        const QueryIndex at = query_index(p, key_head, first + i);
        store_gated(p, rows.first_row + at.row, at.head, merged[i]);
      }
    }
  }
}

__global__ void __launch_bounds__(kAttentionThreads) gated_attention_rows(const GatedAttentionParams p) {
  begin_kernel();
  __shared__ AttentionScratch scratch;
  with_cache(p.cache_format, [&](auto cache) { attend_rows<decltype(cache)>(p, scratch); });
}

}  // namespace
}  // namespace foretoken::gpu
