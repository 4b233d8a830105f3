// Gated attention over a paged cache (online softmax as in FlashAttention, Dao et al. 2022; split over the context as in
// Flash-Decoding). A row's arithmetic is fixed by its own length: splits of kAttentionSplit positions, blocks of kAttentionKeys
// keys within a split, splits merged in order. Rows and heads only share the reading of keys and values.
#include <cmath>

#include "backends/cpu/kernels/attention_rows.h"
#include "backends/cpu/kernels/attention_simd.h"
#include "backends/cpu/kernels/e4m3_simd.h"
#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/kernels/simd.h"

namespace foretoken::cpu::FORETOKEN_CPU_ISA {
namespace {

constexpr float kMinusInfinity = -__builtin_inff();
constexpr size_t kKeys = kAttentionKeys;
static_assert(kKeys == kLanes);
#if defined(__AVX512F__)
constexpr size_t kSumRegisters = 16;  // sums that stay in registers together
constexpr size_t kQueryTile = 4;      // queries that share each load of a key or value
#else
constexpr size_t kSumRegisters = 4;
constexpr size_t kQueryTile = 2;
#endif

/// See attention_partial_floats.
struct Partial {
  float* accumulator;  // [padded D]
  float* max;
  float* sum;
  float* merged_max;
  float* merged_sum;
};

FORETOKEN_SIMD_INLINE Partial partial_at(const GatedAttentionParams& p, size_t row, size_t head, size_t split) {
  const size_t floats = attention_partial_floats(p.head_dim);
  float* base = p.partials + ((row * p.num_query_heads + head) * p.num_splits + split) * floats;
  float* scalars = base + floats - kLanes;
  return {base, scalars, scalars + 1, scalars + 2, scalars + 3};
}

/// Pointers to the D elements of up to kKeys positions, in the cache or converted into scratch; zeros where there is no block.
struct KeyBlock {
  const float* keys[kKeys];
  const float* values[kKeys];
};

struct Scratch {
  alignas(64) float keys[kKeys * kMaxAttentionHeadDim];
  alignas(64) float values[kKeys * kMaxAttentionHeadDim];
  alignas(64) float zeros[kMaxAttentionHeadDim];
};

/// `n` floats of a cache from element `offset`, followed by zeros up to a whole vector; `scale` is that of E4M3 codes.
FORETOKEN_SIMD_INLINE void read_cache(const void* cache, CacheDType dtype, const float* scale, size_t offset, size_t n,
                                      float* out) {
  const F32x16 code_scale = F32x16::broadcast(dtype == CacheDType::kE4M3 ? *scale * kE4M3Unit : 1.0F);
  for (size_t i = 0; i < n; i += kLanes) {
    const size_t count = smaller(n - i, kLanes);
    F32x16 lanes;
    switch (dtype) {
      case CacheDType::kF32: {
        const float* source = static_cast<const float*>(cache) + offset + i;
        lanes = count == kLanes ? F32x16::load(source) : F32x16::load_partial(source, count);
        break;
      }
      case CacheDType::kBF16: {
        const uint16_t* source = static_cast<const uint16_t*>(cache) + offset + i;
        lanes = count == kLanes ? F32x16::load(source) : load_partial_bf16(source, count);
        break;
      }
      case CacheDType::kE4M3: {
        const uint8_t* source = static_cast<const uint8_t*>(cache) + offset + i;
        lanes = (count == kLanes ? load_e4m3_or_nan(source) : load_partial_e4m3_or_nan(source, count)) * code_scale;
        break;
      }
    }
    lanes.store(out + i);
  }
}

/// Finds positions [position, position + count) of sequence b. Positions from `count` on are never looked up.
FORETOKEN_SIMD_INLINE void gather_keys(const GatedAttentionParams& p, size_t b, size_t key_head, size_t position, size_t count,
                                       Scratch& scratch, KeyBlock& block) {
  const bool direct = p.cache_dtype == CacheDType::kF32 && p.head_dim % kLanes == 0;
  const size_t padded = attention_partial_floats(p.head_dim) - kLanes;
  for (size_t j = 0; j < kKeys; ++j) {
    block.keys[j] = block.values[j] = scratch.zeros;
    if (j >= count) continue;
    const size_t offset = cache_element(p, b, key_head, position + j);
    if (offset == kNoElement) continue;
    if (direct) {
      block.keys[j] = static_cast<const float*>(p.k_cache) + offset;
      block.values[j] = static_cast<const float*>(p.v_cache) + offset;
      continue;
    }
    read_cache(p.k_cache, p.cache_dtype, p.k_scale, offset, p.head_dim, scratch.keys + j * padded);
    read_cache(p.v_cache, p.cache_dtype, p.v_scale, offset, p.head_dim, scratch.values + j * padded);
    block.keys[j] = scratch.keys + j * padded;
    block.values[j] = scratch.values + j * padded;
  }
}

/// One row and head, and where its partial result is.
struct Query {
  const float* q;
  Partial partial;
};

FORETOKEN_SIMD_INLINE Query query_at(const GatedAttentionParams& p, size_t row, size_t head, size_t slot) {
  return {query_head(p, row, head), partial_at(p, row, head, slot)};
}

/// scores[n] = q_n . k for each key of the block, lane i of a product going to sum i of sixteen.
template <size_t N>
FORETOKEN_SIMD_INLINE void dot_products(const Query (&queries)[N], size_t head_dim, const KeyBlock& block, F32x16 (&scores)[N]) {
  constexpr size_t kKeyTile = kSumRegisters / N;
  F32x16 sums[N][kKeys];
  const size_t whole = head_dim / kLanes * kLanes;
  for (size_t tile = 0; tile < kKeys; tile += kKeyTile) {
    F32x16 tile_sums[N][kKeyTile];
    const auto add = [&](size_t d, size_t count) {
      F32x16 query[N];
      for (size_t n = 0; n < N; ++n) {
        query[n] = count == kLanes ? F32x16::load(queries[n].q + d) : F32x16::load_partial(queries[n].q + d, count);
      }
      for (size_t j = 0; j < kKeyTile; ++j) {
        const F32x16 key = F32x16::load(block.keys[tile + j] + d);
        for (size_t n = 0; n < N; ++n) tile_sums[n][j] = fma(query[n], key, tile_sums[n][j]);
      }
    };
    for (size_t n = 0; n < N; ++n) {
      for (F32x16& sum : tile_sums[n]) sum = F32x16::zero();
    }
    for (size_t d = 0; d < whole; d += kLanes) add(d, kLanes);
    if (whole < head_dim) add(whole, head_dim - whole);
    for (size_t n = 0; n < N; ++n) {
      for (size_t j = 0; j < kKeyTile; ++j) sums[n][tile + j] = tile_sums[n][j];
    }
  }
  for (size_t n = 0; n < N; ++n) scores[n] = reduce_add_each(sums[n]);
}

/// What a block of keys does to one partial result.
struct BlockWeights {
  float correction;  // of what was accumulated before
  float weights[kKeys];
};

/// Softmax weights of the first `count` keys from their products with q; updates the maximum and the sum.
FORETOKEN_SIMD_INLINE void block_weights(F32x16 products, float scale, size_t count, const Partial& partial, BlockWeights& out) {
  (products * F32x16::broadcast(scale)).store(out.weights);
  for (size_t j = count; j < kKeys; ++j) out.weights[j] = kMinusInfinity;
  const F32x16 scores = F32x16::load(out.weights);
  const float block_max = reduce_max(scores);
  const float old_max = *partial.max;
  const float new_max = block_max > old_max ? block_max : old_max;
  out.correction = new_max > old_max ? exp_one(old_max - new_max) : 1.0F;
  // exp clamps its argument; adding (score - score) keeps a NaN or infinite score visible in the result.
  (exp(scores - F32x16::broadcast(new_max)) + (scores - scores)).store(out.weights);
  *partial.max = new_max;
  *partial.sum = *partial.sum * out.correction + reduce_add(F32x16::load_partial(out.weights, count));
}

/// Vectors d .. d + kTile of each accumulator: times the correction, plus weight_j * value_j in the order of the keys.
template <size_t N, size_t kTile>
FORETOKEN_SIMD_INLINE void accumulate_values(const Query (&queries)[N], const BlockWeights (&blocks)[N], size_t count, size_t d,
                                             const KeyBlock& block) {
  F32x16 sums[N][kTile];
  for (size_t n = 0; n < N; ++n) {
    const F32x16 correction = F32x16::broadcast(blocks[n].correction);
    for (size_t t = 0; t < kTile; ++t) sums[n][t] = F32x16::load(queries[n].partial.accumulator + d + t * kLanes) * correction;
  }
  for (size_t j = 0; j < count; ++j) {
    F32x16 value[kTile];
    for (size_t t = 0; t < kTile; ++t) value[t] = F32x16::load(block.values[j] + d + t * kLanes);
    for (size_t n = 0; n < N; ++n) {
      const F32x16 weight = F32x16::broadcast(blocks[n].weights[j]);
      for (size_t t = 0; t < kTile; ++t) sums[n][t] = fma(weight, value[t], sums[n][t]);
    }
  }
  for (size_t n = 0; n < N; ++n) {
    for (size_t t = 0; t < kTile; ++t) sums[n][t].store(queries[n].partial.accumulator + d + t * kLanes);
  }
}

/// N queries take the first `count` keys of a block into their partial results. Keys from `count` on have no influence.
template <size_t N>
FORETOKEN_SIMD_INLINE void attend_block(const GatedAttentionParams& p, const Query (&queries)[N], size_t count,
                                        const KeyBlock& block) {
  F32x16 scores[N];
  dot_products(queries, p.head_dim, block, scores);
  BlockWeights blocks[N];
  for (size_t n = 0; n < N; ++n) block_weights(scores[n], p.scale, count, queries[n].partial, blocks[n]);
  constexpr size_t kTile = kSumRegisters / N < 4 ? kSumRegisters / N : 4;
  const size_t padded = attention_partial_floats(p.head_dim) - kLanes;
  size_t d = 0;
  for (; d + kTile * kLanes <= padded; d += kTile * kLanes) accumulate_values<N, kTile>(queries, blocks, count, d, block);
  for (; d < padded; d += kLanes) accumulate_values<N, 1>(queries, blocks, count, d, block);
}

/// All queries of a group and key head take the keys of one block, which starts at `position`. Queries that see the whole block
/// go together, whichever rows they are of.
void attend_group_block(const GatedAttentionParams& p, const RowGroup& group, size_t key_head, size_t position, size_t slot,
                        const KeyBlock& block) {
  const size_t heads = p.num_query_heads / p.num_key_heads;
  const auto query = [&](size_t i) { return query_at(p, group.first + i / heads, key_head * heads + i % heads, slot); };
  size_t i = 0;
  for (; i < group.count * heads; ++i) {
    const size_t length = smaller(group.length(i / heads), p.max_seq_len);
    if (length >= position + kKeys) break;
    if (length > position) attend_block<1>(p, {query(i)}, length - position, block);
  }
  for (; i + kQueryTile <= group.count * heads; i += kQueryTile) {
    Query queries[kQueryTile];
    for (size_t n = 0; n < kQueryTile; ++n) queries[n] = query(i + n);
    attend_block(p, queries, kKeys, block);
  }
  for (; i < group.count * heads; ++i) attend_block<1>(p, {query(i)}, kKeys, block);
}

/// The partial results of a group over split `split` for all query heads of `key_head`; kept at `slot` of the partials.
void attend_split(const GatedAttentionParams& p, const RowGroup& group, size_t key_head, size_t split, size_t slot,
                  Scratch& scratch) {
  const size_t heads = p.num_query_heads / p.num_key_heads;
  const size_t begin = split * kAttentionSplit;
  const size_t longest = smaller(group.length(group.count - 1), p.max_seq_len);
  const size_t end = smaller(begin + kAttentionSplit, longest);
  const size_t padded = attention_partial_floats(p.head_dim) - kLanes;
  for (size_t i = 0; i < group.count; ++i) {
    for (size_t h = 0; h < heads; ++h) {
      const Partial partial = partial_at(p, group.first + i, key_head * heads + h, slot);
      std::memset(partial.accumulator, 0, padded * sizeof(float));
      *partial.max = kMinusInfinity;
      *partial.sum = 0.0F;
    }
  }
  KeyBlock block;
  for (size_t position = begin; position < end; position += kKeys) {
    gather_keys(p, group.b, key_head, position, smaller(end - position, kKeys), scratch, block);
    attend_group_block(p, group, key_head, position, slot, block);
  }
}

/// The maximum and sum of the splits merged so far; their accumulator is the row's output.
struct Merged {
  float max = kMinusInfinity;
  float sum = 0.0F;
};

/// Merges the partial result of the next split into `out`.
FORETOKEN_SIMD_INLINE void merge_split(const Partial& partial, size_t head_dim, Merged& merged, float* out) {
  const float new_max = *partial.max > merged.max ? *partial.max : merged.max;
  const float old_factor = exp_one(merged.max - new_max);
  const float factor = exp_one(*partial.max - new_max);
  merged.max = new_max;
  merged.sum = merged.sum * old_factor + *partial.sum * factor;
  const F32x16 old_factors = F32x16::broadcast(old_factor), factors = F32x16::broadcast(factor);
  for (size_t d = 0; d < head_dim; d += kLanes) {
    const size_t count = smaller(head_dim - d, kLanes);
    const F32x16 old = F32x16::load_partial(out + d, count) * old_factors;
    fma(F32x16::load(partial.accumulator + d), factors, old).store_partial(out + d, count);
  }
}

FORETOKEN_SIMD_INLINE size_t num_splits(const GatedAttentionParams& p, size_t length) {
  return (smaller(length, p.max_seq_len) + kAttentionSplit - 1) / kAttentionSplit;
}

/// First launch of few rows: item i is worker i % num_workers of key head i / num_workers % Hkv of sequence i / num_workers /
/// Hkv. The workers of a sequence share out the splits that it has now.
void gated_attention_split(const GatedAttentionParams& p, uint32_t begin, uint32_t end) {
  Scratch scratch;
  std::memset(scratch.zeros, 0, sizeof(scratch.zeros));
  for (size_t item = begin; item < end; ++item) {
    const size_t worker = item % p.num_workers;
    const size_t key_head = item / p.num_workers % p.num_key_heads;
    const size_t b = item / p.num_workers / p.num_key_heads;
    const int32_t rows = p.query_start_loc[b + 1] - p.query_start_loc[b];
    if (rows <= 0) continue;
    const RowGroup group = row_group(p, b, 0, static_cast<size_t>(rows));
    const size_t splits = num_splits(p, group.length(group.count - 1));
    for (size_t split = worker * splits / p.num_workers; split < (worker + 1) * splits / p.num_workers; ++split) {
      attend_split(p, group, key_head, split, split, scratch);
    }
  }
}

/// Second launch of few rows: item i is head i % Hq of row i / Hq.
void gated_attention_combine(const GatedAttentionParams& p, uint32_t begin, uint32_t end) {
  for (size_t item = begin; item < end; ++item) {
    const size_t row = item / p.num_query_heads;
    const size_t head = item % p.num_query_heads;
    size_t b = 0;
    while (b < p.num_sequences && row >= static_cast<size_t>(p.query_start_loc[b + 1])) ++b;
    if (b == p.num_sequences) continue;
    const auto first = static_cast<size_t>(p.query_start_loc[b]);
    const size_t splits = num_splits(p, row_group(p, b, row - first, 1).context);
    float* out = out_head(p, row, head);
    std::memset(out, 0, p.head_dim * sizeof(float));
    Merged merged;
    for (size_t split = 0; split < splits; ++split) merge_split(partial_at(p, row, head, split), p.head_dim, merged, out);
    finish_row(out, gate_head(p, row, head), p.head_dim, merged.sum, out);
  }
}

/// All splits of a group in turn, each merged at once: the arithmetic of the two launches above in one item.
void attend_group(const GatedAttentionParams& p, const RowGroup& group, size_t key_head, Scratch& scratch) {
  const size_t heads = p.num_query_heads / p.num_key_heads;
  const size_t splits = num_splits(p, group.length(group.count - 1));
  for (size_t split = 0; split < splits; ++split) {
    attend_split(p, group, key_head, split, 0, scratch);
    for (size_t i = 0; i < group.count; ++i) {
      if (split >= num_splits(p, group.length(i))) continue;
      for (size_t head = key_head * heads; head < (key_head + 1) * heads; ++head) {
        const Partial partial = partial_at(p, group.first + i, head, 0);
        float* out = out_head(p, group.first + i, head);
        Merged merged;
        if (split == 0) {
          std::memset(out, 0, p.head_dim * sizeof(float));
        } else {
          merged = {*partial.merged_max, *partial.merged_sum};
        }
        merge_split(partial, p.head_dim, merged, out);
        *partial.merged_max = merged.max;
        *partial.merged_sum = merged.sum;
        if (split + 1 == num_splits(p, group.length(i))) {
          finish_row(out, gate_head(p, group.first + i, head), p.head_dim, merged.sum, out);
        }
      }
    }
  }
}

/// Many rows in one launch: item i is key head i % Hkv of a group of kAttentionRows rows.
void gated_attention_rows(const GatedAttentionParams& p, uint32_t begin, uint32_t end) {
  Scratch scratch;
  std::memset(scratch.zeros, 0, sizeof(scratch.zeros));
  const size_t groups = groups_of_call(p, kAttentionRows);
  for (size_t item = begin; item < end; ++item) {
    const size_t turn = item / p.num_key_heads;
    if (turn >= groups) return;
    attend_group(p, group_of_turn(p, kAttentionRows, groups, turn), item % p.num_key_heads, scratch);
  }
}

constexpr KernelEntry kEntries[] = {
    kernel_entry<GatedAttentionParams, gated_attention_split>("gated_attention_split"),
    kernel_entry<GatedAttentionParams, gated_attention_combine>("gated_attention_combine"),
    kernel_entry<GatedAttentionParams, gated_attention_rows>("gated_attention_rows"),
};

}  // namespace

void add_attention_kernels(std::vector<KernelEntry>& list) { append(list, kEntries); }

}  // namespace foretoken::cpu::FORETOKEN_CPU_ISA
