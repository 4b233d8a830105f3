// gated_attention (core/ops/gated_attention.h). A query is one head of one row. Each split of a row's context is computed from
// nothing, and the splits are merged in order, so the bits of a row depend neither on the rows beside it nor on who merges.
#pragma once

#include "backends/gpu/attention_tile.inl"

namespace foretoken::gpu {
namespace {

/// Positions of one split of a row that is `length` positions long.
FORETOKEN_DEVICE uint32_t split_size(uint32_t length) {
  uint32_t size = kMinSplit;
  while (uint64_t{size} * kMaxSplits < length) size *= 2;
  return size;
}

/// The rows of one sequence that a work group takes.
struct RowGroup {
  const int32_t* block_table;
  uint32_t first_row;     // in the call
  uint32_t num_rows;      // 0: nothing to do
  uint32_t first_length;  // positions that the first row attends to; the next ones see one more each
};

FORETOKEN_DEVICE RowGroup row_group(const GatedAttentionParams& p, uint32_t sequence, uint32_t group) {
  const auto* starts = pointer<const int32_t>(p.query_start_loc);
  const int32_t begin = starts[sequence];
  const int32_t count = starts[sequence + 1] - begin;
  const int32_t skipped = static_cast<int32_t>(group * kAttentionRows);
  const int32_t before = pointer<const int32_t>(p.seq_lens)[sequence] - count;  // positions in front of the first row
  RowGroup rows{};
  rows.block_table = pointer<const int32_t>(p.block_table) + sequence * p.block_table_stride;
  if (count <= skipped || before < 0) return rows;
  rows.first_row = static_cast<uint32_t>(begin + skipped);
  rows.num_rows = smaller(static_cast<uint32_t>(count - skipped), kAttentionRows);
  rows.first_length = smaller(static_cast<uint32_t>(before + skipped + 1), p.max_seq_len);
  return rows;
}

/// The queries that are computed together: numbers first .. first + kQueries of rows * heads per key head.
struct QueryTile {
  uint32_t first;
  uint32_t count;
};

/// Position of query `i` of a tile: its row within the group and its head.
struct QueryIndex {
  uint32_t row;
  uint32_t head;
};

FORETOKEN_DEVICE QueryIndex query_index(const GatedAttentionParams& p, uint32_t key_head, uint32_t query) {
  const uint32_t heads = p.num_query_heads / p.num_key_heads;
  return {query / heads, key_head * heads + query % heads};
}

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

/// Rows of the group whose splits are `size` long: they follow each other, because lengths do.
struct RowRange {
  uint32_t first;
  uint32_t count;
};

FORETOKEN_DEVICE RowRange rows_of_size(const RowGroup& rows, uint32_t size) {
  RowRange range{0, 0};
  for (uint32_t r = 0; r < rows.num_rows; ++r) {
    if (split_size(rows.first_length + r) != size) continue;
    if (range.count++ == 0) range.first = r;
  }
  return range;
}

template <class Cache>
FORETOKEN_DEVICE void attend_and_store_split(const GatedAttentionParams& p, AttentionScratch& scratch) {
  const uint32_t split = blockIdx.x;
  const uint32_t key_head = blockIdx.y;
  const RowGroup rows = row_group(p, blockIdx.z / p.num_row_groups, blockIdx.z % p.num_row_groups);
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
        const uint64_t part = (uint64_t{rows.first_row + at.row} * p.num_query_heads + at.head) * p.num_splits + split;
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

/// What the splits of a query have given so far: one element of the mixed values, the maximum and the sum.
struct Merged {
  float mixed;
  float maximum;
  float sum;

  FORETOKEN_DEVICE static Merged nothing() { return {0.0F, -INFINITY, 0.0F}; }
  FORETOKEN_DEVICE void add(float other_mixed, float other_maximum, float other_sum) {
    const float larger = fmaxf(maximum, other_maximum);
    const float mine = maximum == larger ? 1.0F : expf(maximum - larger);
    const float theirs = other_maximum == larger ? 1.0F : expf(other_maximum - larger);
    mixed = fmaf(mixed, mine, other_mixed * theirs);
    sum = fmaf(sum, mine, other_sum * theirs);
    maximum = larger;
  }
};

/// Element threadIdx.x of a query's output.
FORETOKEN_DEVICE void store_gated(const GatedAttentionParams& p, uint32_t row, uint32_t head, const Merged& merged) {
  const uint64_t element = uint64_t{head} * p.head_dim + threadIdx.x;
  const uint64_t gate = row * p.q_gate_stride + uint64_t{head} * 2 * p.head_dim + p.head_dim + threadIdx.x;
  float value = merged.mixed / merged.sum;
  if (p.cache_format == CacheFormat::kE4M3) value *= *pointer<const float>(p.v_scale);
  store_float(p.out, row * p.out_stride + element, value * sigmoid(load_float(p.q_gate, gate, p.q_gate_is_bf16 != 0)),
              p.out_is_bf16 != 0);
}

/// Positions that a row attends to; 0 for padding.
FORETOKEN_DEVICE uint32_t length_of_row(const GatedAttentionParams& p, uint32_t row) {
  const auto* starts = pointer<const int32_t>(p.query_start_loc);
  for (uint32_t b = 0; b < p.num_sequences; ++b) {
    if (static_cast<int32_t>(row) < starts[b] || static_cast<int32_t>(row) >= starts[b + 1]) continue;
    const int32_t length = pointer<const int32_t>(p.seq_lens)[b] - starts[b + 1] + static_cast<int32_t>(row) + 1;
    return length <= 0 ? 0 : smaller(static_cast<uint32_t>(length), p.max_seq_len);
  }
  return 0;
}

__global__ void __launch_bounds__(kAttentionThreads) gated_attention_combine(const GatedAttentionParams p) {
  begin_kernel();
  const uint32_t head = blockIdx.x;
  const uint32_t row = blockIdx.y;
  const uint32_t length = length_of_row(p, row);
  if (length == 0 || threadIdx.x >= p.head_dim) return;
  const uint32_t size = split_size(length);
  const uint64_t first = (uint64_t{row} * p.num_query_heads + head) * p.num_splits;
  Merged merged = Merged::nothing();
#pragma unroll 4
  for (uint32_t split = 0; split * size < length; ++split) {
    merged.add(pointer<const float>(p.partial)[(first + split) * p.head_dim + threadIdx.x],
               pointer<const float>(p.partial_max)[(first + split) * 2],
               pointer<const float>(p.partial_max)[(first + split) * 2 + 1]);
  }
  store_gated(p, row, head, merged);
}

template <class Cache>
FORETOKEN_DEVICE void attend_rows(const GatedAttentionParams& p, AttentionScratch& scratch) {
  const uint32_t key_head = blockIdx.y;
  const RowGroup rows = row_group(p, blockIdx.z, blockIdx.x);
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
