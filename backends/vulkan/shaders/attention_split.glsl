// One split of the context of the queries that a work group takes (gated_attention).
#ifndef FORETOKEN_ATTENTION_SPLIT_GLSL
#define FORETOKEN_ATTENTION_SPLIT_GLSL

#include "backends/vulkan/shaders/attention.glsl"

// Queries and keys that are taken at a time.
const uint kQueries = 8;
const uint kKeys = 32;
// Invocations that share a key, and elements of it that one takes in a row.
const uint kKeyLanes = kAttentionThreads / kKeys;
const uint kUnit = 8;
const uint kUnits = kMaxHeadDim / kUnit / kKeyLanes;

shared vec4 queries[kQueries][kMaxHeadDim / 4];  // scaled; 0 past the end of a head
shared float scores[kQueries][kKeys];
shared float shares[kKeys][kQueries];
shared uint64_t key_elements[2][kKeys];  // of each key in the caches; tiles take turns
shared float rescales[kQueries];         // what a query's mixed values are multiplied by before these keys are added
shared float maxima[kQueries];           // over a whole split
shared float sums[kQueries];

// The rows of one sequence that a work group takes.
struct RowGroup {
  uint64_t block_table;
  uint first_row;     // in the call
  uint num_rows;      // 0: nothing to do
  uint first_length;  // positions that the first row attends to; the next ones see one more each
};

// Rows [first, first + kAttentionRows) of the call, as far as they are the sequence's.
RowGroup row_group(uint sequence, uint first) {
  const int begin = load_i32(params.query_start_loc, sequence);
  const int end = load_i32(params.query_start_loc, sequence + 1);
  const int first_row = max(int(first), begin);
  const int last_row = min(int(first + kAttentionRows), end);  // one past
  const int length = load_i32(params.seq_lens, sequence) - (end - first_row) + 1;
  RowGroup rows = RowGroup(params.block_table + sequence * params.block_table_stride * 4, 0, 0, 0);
  if (last_row <= first_row || length <= first_row - begin) return rows;
  rows.first_row = uint(first_row);
  rows.num_rows = uint(last_row - first_row);
  rows.first_length = min(uint(length), params.max_seq_len);
  return rows;
}

// Where a query of a row group and key head is: its row within the group, and its head.
struct QueryIndex {
  uint row;
  uint head;
};

QueryIndex query_index(uint key_head, uint query) {
  const uint heads = params.num_query_heads / params.num_key_heads;
  return QueryIndex(query / heads, key_head * heads + query % heads);
}

// The queries that are computed together, numbers first .. first + count of rows * heads per key head, and where they look.
struct QueryTile {
  RowGroup rows;
  uint key_head;
  uint first;
  uint count;
};

// Rows of the group whose splits are `size` long: they follow each other, because lengths do.
struct RowRange {
  uint first;
  uint count;
};

RowRange rows_of_size(RowGroup rows, uint size) {
  RowRange range = RowRange(0, 0);
  for (uint r = 0; r < rows.num_rows; ++r) {
    if (split_size(rows.first_length + r) != size) continue;
    if (range.count == 0) range.first = r;
    ++range.count;
  }
  return range;
}

// Positions that query i of the tile attends to; 0 where there is no such query.
uint length_of(QueryTile tile, uint i) {
  return i < tile.count ? tile.rows.first_length + query_index(tile.key_head, tile.first + i).row : 0;
}

// How many of `count` keys from `position` on query i sees: what it must not see may hold anything.
uint visible_keys(QueryTile tile, uint i, uint position, uint count) {
  const uint length = length_of(tile, i);
  return length > position ? min(length - position, count) : 0;
}

void load_queries(QueryTile tile) {
  const float factor = params.cache_format == kE4m3Cache ? params.scale * load_f32(params.k_scale, 0) : params.scale;
  barrier();  // the tile before has been used
  for (uint at = thread_index(); at < kQueries * kMaxHeadDim / 4; at += kAttentionThreads) {
    const uint i = at / (kMaxHeadDim / 4);
    const uint d = at % (kMaxHeadDim / 4) * 4;
    vec4 elements = vec4(0.0);
    if (i < tile.count) {
      const QueryIndex query = query_index(tile.key_head, tile.first + i);
      const uint64_t source = (tile.rows.first_row + query.row) * params.q_stride + uint64_t(query.head) * params.head_dim + d;
      [[unroll]] for (uint u = 0; u < 4; ++u) {
        if (d + u < params.head_dim) elements[u] = load_float(params.q, source + u, params.q_is_bf16) * factor;
      }
    }
    queries[i][d / 4] = elements;
  }
  barrier();
}

// First element of a position in the caches. A block that does not exist would be the caller's mistake; its keys are then those
// of block 0.
uint64_t key_element(QueryTile tile, uint position) {
  const uint block = uint(load_i32(tile.rows.block_table, position / params.block_size));
  const uint64_t slot = uint64_t(block < params.num_blocks ? block : 0) * params.block_size + position % params.block_size;
  return (slot * params.num_key_heads + tile.key_head) * params.head_dim;
}

float load_cached(uint64_t cache, uint64_t element) {
  if (params.cache_format == kE4m3Cache) return e4m3_to_float(load_u8(cache, element));
  return load_float(cache, element, params.cache_format == kBf16Cache ? 1 : 0);
}

vec4 codes_to_floats(uint codes) {
  return vec4(e4m3_to_float(codes & 0xffu), e4m3_to_float(codes >> 8 & 0xffu), e4m3_to_float(codes >> 16 & 0xffu),
              e4m3_to_float(codes >> 24));
}

// The invocation's elements of a key: kUnit at a time, those of its neighbours in between. 0 past the end of the head.
void load_key(uint64_t element, uint lane, out vec4 key[2 * kUnits]) {
  const bool whole_units = params.head_dim % kUnit == 0 && params.k_cache % 16 == 0;
  [[unroll]] for (uint u = 0; u < kUnits; ++u) {
    const uint d = (lane + u * kKeyLanes) * kUnit;
    vec4 low = vec4(0.0);
    vec4 high = vec4(0.0);
    if (d < params.head_dim) {
      const uint64_t at = element + d;
      if (!whole_units) {
        [[unroll]] for (uint i = 0; i < 4; ++i) {
          if (d + i < params.head_dim) low[i] = load_cached(params.k_cache, at + i);
          if (d + 4 + i < params.head_dim) high[i] = load_cached(params.k_cache, at + 4 + i);
        }
      } else if (params.cache_format == kBf16Cache) {
        const uvec4 words = U32x4Ref(params.k_cache + at * 2).value;
        low = bf16x4_to_floats(words.xy);
        high = bf16x4_to_floats(words.zw);
      } else if (params.cache_format == kE4m3Cache) {
        const uvec2 words = U32x2Ref(params.k_cache + at).value;
        low = codes_to_floats(words.x);
        high = codes_to_floats(words.y);
      } else {
        low = load_four(params.k_cache, at, 0);
        high = load_four(params.k_cache, at + 4, 0);
      }
    }
    key[2 * u] = low;
    key[2 * u + 1] = high;
  }
}

// Products of the invocation's key with all queries; its own result is that with query `lane`.
float score_of_key(vec4 key[2 * kUnits], uint lane) {
  float parts[kQueries];
  [[unroll]] for (uint i = 0; i < kQueries; ++i) {
    precise vec4 sum = vec4(0.0);
    [[unroll]] for (uint u = 0; u < 2 * kUnits; ++u) {
      sum = fma(key[u], queries[i][(lane + u / 2 * kKeyLanes) * 2 + u % 2], sum);
    }
    precise const float part = (sum.x + sum.y) + (sum.z + sum.w);
    parts[i] = part;
  }
  // Halves of the sums change hands until each lane has one: the same tree for all.
  [[unroll]] for (uint half_count = kQueries / 2; half_count > 0; half_count /= 2) {
    const bool upper = (lane & half_count) != 0;
    [[unroll]] for (uint i = 0; i < half_count; ++i) {
      const float kept = upper ? parts[i + half_count] : parts[i];
      const float given = upper ? parts[i] : parts[i + half_count];
      precise const float sum = kept + subgroupShuffleXor(given, half_count);
      parts[i] = sum;
    }
  }
  return parts[0];
}

// Invocation (query, key): turns the scores into the query's shares of these keys. Returns the query's maximum so far.
float share_keys(QueryTile tile, uint position, uint count, float maximum) {
  const uint i = thread_index() / kKeys;
  const uint j = thread_index() % kKeys;
  const uint visible = visible_keys(tile, i, position, count);
  float larger = maximum;
  [[unroll]] for (uint k = 0; k < kKeys; ++k) larger = max(larger, k < visible ? scores[i][k] : kLowest);
  shares[j][i] = j < visible ? exponential(scores[i][j] - larger) : 0.0;
  if (j == 0) rescales[i] = rescale_factor(maximum, larger);
  return larger;
}

// Adds element d of the values, shared out, to what each query has.
void add_values(QueryTile tile, uint position, uint count, uint parity, inout float mixed[kQueries]) {
  const uint d = thread_index();
  uint visible[kQueries];
  uint all_see = count;  // keys that every query sees
  [[unroll]] for (uint i = 0; i < kQueries; ++i) {
    visible[i] = visible_keys(tile, i, position, count);
    if (i < tile.count) all_see = min(all_see, visible[i]);
    precise const float rescaled = mixed[i] * rescales[i];
    mixed[i] = rescaled;
  }
  if (d >= params.head_dim) return;
  for (uint j = 0; j < all_see; ++j) {
    const float value = load_cached(params.v_cache, key_elements[parity][j] + d);
    [[unroll]] for (uint i = 0; i < kQueries; ++i) mixed[i] = fma(shares[j][i], value, mixed[i]);
  }
  for (uint j = all_see; j < count; ++j) {
    const float value = load_cached(params.v_cache, key_elements[parity][j] + d);
    [[unroll]] for (uint i = 0; i < kQueries; ++i) {
      if (j < visible[i]) mixed[i] = fma(shares[j][i], value, mixed[i]);
    }
  }
}

// The queries of a tile over positions [begin, end): `mixed` holds the invocation's element of each, not yet divided by the sum;
// the group has their maxima and sums.
void attend_split(QueryTile tile, uint begin, uint end, out float mixed[kQueries]) {
  const uint own = thread_index();
  const uint key = own / kKeyLanes;
  const uint lane = own % kKeyLanes;
  float maximum = kLowest;  // of query own / kKeys
  float sum = 0.0;          // of query `own`
  uint parity = 0;
  [[unroll]] for (uint i = 0; i < kQueries; ++i) mixed[i] = 0.0;
  for (uint position = begin; position < end; position += kKeys) {
    const uint count = min(kKeys, end - position);
    vec4 elements[2 * kUnits];
    [[unroll]] for (uint u = 0; u < 2 * kUnits; ++u) elements[u] = vec4(0.0);
    if (key < count) {
      const uint64_t element = key_element(tile, position + key);
      if (lane == 0) key_elements[parity][key] = element;
      load_key(element, lane, elements);
    }
    scores[lane][key] = score_of_key(elements, lane);
    barrier();
    maximum = share_keys(tile, position, count, maximum);
    barrier();
    if (own < kQueries) {
      precise float tile_sum = 0.0;
      for (uint j = 0; j < kKeys; ++j) tile_sum = tile_sum + shares[j][own];
      sum = fma(sum, rescales[own], tile_sum);
    }
    add_values(tile, position, count, parity, mixed);
    parity ^= 1;
  }
  barrier();  // what the split before left has been used
  if (own % kKeys == 0) maxima[own / kKeys] = maximum;
  if (own < kQueries) sums[own] = sum;
  barrier();
}

#endif
