// Gated attention of prefill on AMX: Q K^T and P V on tiles, the online softmax between them in float32. The query heads of a key
// head share its keys and values, so a row of a tile is a pair of a row and a head. Queries, keys, values and the shares P are
// rounded to BF16, in which BF16 caches and the codes of E4M3 caches are exact; the scales of codes go into what is float32. A
// row is divided by the sum of its rounded shares. Blocks of keys begin at fixed positions, and what a row does not see of one
// adds zero times its values, so while those are finite a row's bits depend on its own query and keys only.
#include "backends/cpu/kernels/amx_operands.h"
#include "backends/cpu/kernels/amx_tiles.h"
#include "backends/cpu/kernels/attention_rows.h"
#include "backends/cpu/kernels/e4m3_simd.h"
#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/kernels/prefill_amx.h"
#include "backends/cpu/kernels/transpose.h"

namespace foretoken::cpu::FORETOKEN_CPU_ISA {
namespace {

constexpr float kMinusInfinity = -__builtin_inff();
constexpr size_t kKeys = 128;           // of a block: what is accumulated is loaded and stored once for all of them
constexpr size_t kUnit = 2 * kAmxTile;  // pairs that are multiplied together
constexpr size_t kPairs = kAmxAttentionPairs;
constexpr size_t kDim = kAmxAttentionDim;
static_assert(kPairs % kUnit == 0 && kKeys % kAmxDepth == 0);

/// What an item works with.
struct Work {
  alignas(64) TileLines queries[kPairs / kAmxTile][kDim / kAmxDepth];
  alignas(64) TileLines keys[kKeys / kAmxTile][kDim / kAmxDepth];     // K^T, packed
  alignas(64) TileLines values[kKeys / kAmxDepth][kDim / kAmxTile];   // packed: keys i and i + 16 of 32 are a pair
  alignas(64) float scores[kUnit][kKeys];                             // Q K^T of a unit
  alignas(64) TileLines shares[kUnit / kAmxTile][kKeys / kAmxDepth];  // P of a unit, its keys in the order of the values
  alignas(64) float sums[kPairs][kDim];                               // of shares times values
  alignas(64) float share_sums[kPairs][kLanes];
  float max[kPairs];
  size_t elements[kKeys];  // where keys and values are in their caches
};

/// The pairs of an item: pair i is head i % heads of row i / heads, heads counted from the first of the key head.
struct Pairs {
  RowGroup rows;
  size_t heads;
  size_t key_head;

  [[nodiscard]] size_t count() const { return rows.count * heads; }
  [[nodiscard]] size_t row(size_t pair) const { return rows.first + pair / heads; }
  [[nodiscard]] size_t head(size_t pair) const { return key_head * heads + pair % heads; }
};

/// What scores and values are multiplied by: the scale of the scores, and of codes their own.
struct Factors {
  float score, value;

  explicit Factors(const GatedAttentionParams& p) : score(p.scale), value(1.0F) {
    if (p.cache_dtype != CacheDType::kE4M3) return;
    score *= *p.k_scale * kE4M3Unit;
    value = *p.v_scale * kE4M3Unit;
  }
};

/// Positions that `pair` sees from `position` on.
FORETOKEN_SIMD_INLINE size_t visible_keys(const GatedAttentionParams& p, const Pairs& pairs, size_t pair, size_t position) {
  if (pair >= pairs.count()) return 0;
  const size_t length = smaller(pairs.rows.length(pair / pairs.heads), p.max_seq_len);
  return length <= position ? 0 : length - position;
}

/// Thirty-two elements in BF16.
FORETOKEN_SIMD_INLINE __m512i line_of(F32x16 low, F32x16 high) {
  const __m256i first = _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded_words(low), 16));
  const __m256i second = _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded_words(high), 16));
  return _mm512_inserti64x4(_mm512_castsi256_si512(first), second, 1);
}

/// Thirty-two elements of a cache in BF16, of codes without their scale; zeros where there is no block.
template <CacheDType kDType>
FORETOKEN_SIMD_INLINE __m512i load_line(const void* cache, size_t element, size_t d) {
  if (element == kNoElement) return _mm512_setzero_si512();
  if constexpr (kDType == CacheDType::kBF16) {
    return _mm512_loadu_si512(static_cast<const uint16_t*>(cache) + element + d);
  } else if constexpr (kDType == CacheDType::kE4M3) {
    const uint8_t* codes = static_cast<const uint8_t*>(cache) + element + d;
    return line_of(load_e4m3_or_nan(codes), load_e4m3_or_nan(codes + kLanes));
  } else {
    const float* floats = static_cast<const float*>(cache) + element + d;
    return line_of(F32x16::load(floats), F32x16::load(floats + kLanes));
  }
}

/// Sixteen columns of two keys, packed.
FORETOKEN_SIMD_INLINE __m512i side_by_side(__m256i even, __m256i odd) {
  return _mm512_or_si512(_mm512_cvtepu16_epi32(even), _mm512_slli_epi32(_mm512_cvtepu16_epi32(odd), 16));
}

/// Packs the first `count` keys and values of w.elements, a multiple of kAmxDepth.
template <CacheDType kDType>
void pack_block(const GatedAttentionParams& p, size_t count, Work& w) {
  for (size_t first = 0; first < count; first += kAmxTile) {
    for (size_t d = 0; d < p.head_dim; d += kAmxDepth) {
      __m512 tile[kLanes];
      for (size_t i = 0; i < kLanes; ++i) {
        tile[i] = _mm512_castsi512_ps(load_line<kDType>(p.k_cache, w.elements[first + i], d));
      }
      transpose(tile);
      for (size_t i = 0; i < kLanes; ++i) _mm512_store_ps(w.keys[first / kAmxTile][d / kAmxDepth][i], tile[i]);
    }
  }
  for (size_t first = 0; first < count; first += kAmxDepth) {
    for (size_t i = 0; i < kAmxTile; ++i) {
      for (size_t d = 0; d < p.head_dim; d += kAmxDepth) {
        const __m512i even = load_line<kDType>(p.v_cache, w.elements[first + i], d);
        const __m512i odd = load_line<kDType>(p.v_cache, w.elements[first + kAmxTile + i], d);
        TileLines* tiles = w.values[first / kAmxDepth] + d / kAmxTile;
        _mm512_store_si512(tiles[0][i], side_by_side(_mm512_castsi512_si256(even), _mm512_castsi512_si256(odd)));
        _mm512_store_si512(tiles[1][i], side_by_side(_mm512_extracti64x4_epi64(even, 1), _mm512_extracti64x4_epi64(odd, 1)));
      }
    }
  }
}

/// Keys and values of `count` positions from `position` on; zeros up to a whole depth of a product.
void prepare_block(const GatedAttentionParams& p, const Pairs& pairs, size_t position, size_t count, Work& w) {
  const size_t padded = (count + kAmxDepth - 1) / kAmxDepth * kAmxDepth;
  for (size_t j = 0; j < padded; ++j) {
    w.elements[j] = j < count ? cache_element(p, pairs.rows.b, pairs.key_head, position + j) : kNoElement;
  }
  switch (p.cache_dtype) {
    case CacheDType::kF32: return pack_block<CacheDType::kF32>(p, padded, w);
    case CacheDType::kBF16: return pack_block<CacheDType::kBF16>(p, padded, w);
    case CacheDType::kE4M3: return pack_block<CacheDType::kE4M3>(p, padded, w);
  }
}

/// Queries of all pairs, zeros up to whole units, and sums of nothing.
void prepare_pairs(const GatedAttentionParams& p, const Pairs& pairs, Work& w) {
  for (size_t pair = 0; pair < (pairs.count() + kUnit - 1) / kUnit * kUnit; ++pair) {
    for (size_t d = 0; d < p.head_dim; d += kAmxDepth) {
      __m512i line = _mm512_setzero_si512();
      if (pair < pairs.count()) {
        const float* q = query_head(p, pairs.row(pair), pairs.head(pair)) + d;
        line = line_of(F32x16::load(q), F32x16::load(q + kLanes));
      }
      _mm512_store_si512(w.queries[pair / kAmxTile][d / kAmxDepth][pair % kAmxTile], line);
    }
    __builtin_memset(w.sums[pair], 0, p.head_dim * sizeof(float));
    __builtin_memset(w.share_sums[pair], 0, sizeof(w.share_sums[pair]));
    w.max[pair] = kMinusInfinity;
  }
}

/// Two tiles of an operand, `other` tiles apart, and those that follow along the depth of a product, `next` tiles apart.
struct Operand {
  const TileLines* tiles;
  size_t other;
  size_t next;
};

/// Tiles 0 to 3 += rows times columns, two by two tiles.
FORETOKEN_SIMD_INLINE void multiply(const Operand& rows, const Operand& columns, size_t depths) {
  for (size_t depth = 0; depth < depths; ++depth) {
    const TileLines* left = rows.tiles + depth * rows.next;
    const TileLines* right = columns.tiles + depth * columns.next;
    tile_load<4>(left, kLineBytes);
    tile_load<6>(right, kLineBytes);
    tile_multiply<0, 4, 6>();
    tile_load<7>(right + columns.other, kLineBytes);
    tile_multiply<1, 4, 7>();
    tile_load<5>(left + rows.other, kLineBytes);
    tile_multiply<2, 5, 6>();
    tile_multiply<3, 5, 7>();
  }
}

FORETOKEN_SIMD_INLINE void store_tiles(float* upper, size_t stride) {
  float* lower = upper + kAmxTile * stride;
  tile_store<0>(upper, stride * sizeof(float));
  tile_store<1>(upper + kAmxTile, stride * sizeof(float));
  tile_store<2>(lower, stride * sizeof(float));
  tile_store<3>(lower + kAmxTile, stride * sizeof(float));
}

FORETOKEN_SIMD_INLINE void load_tiles(const float* upper, size_t stride) {
  const float* lower = upper + kAmxTile * stride;
  tile_load<0>(upper, stride * sizeof(float));
  tile_load<1>(upper + kAmxTile, stride * sizeof(float));
  tile_load<2>(lower, stride * sizeof(float));
  tile_load<3>(lower + kAmxTile, stride * sizeof(float));
}

/// Scores of the unit from pair `first` on with `count` keys, a multiple of kAmxDepth.
void score_unit(size_t first, size_t count, size_t head_dim, Work& w) {
  for (size_t key = 0; key < count; key += kUnit) {
    tile_zero<0>();
    tile_zero<1>();
    tile_zero<2>();
    tile_zero<3>();
    multiply({w.queries[first / kAmxTile], kDim / kAmxDepth, 1}, {w.keys[key / kAmxTile], kDim / kAmxDepth, 1},
             head_dim / kAmxDepth);
    store_tiles(w.scores[0] + key, kKeys);
  }
}

/// Adds the shares of `count` keys times their values.
void add_values(size_t first, size_t count, size_t head_dim, Work& w) {
  for (size_t d = 0; d < head_dim; d += kUnit) {
    load_tiles(w.sums[first] + d, kDim);
    multiply({w.shares[0], kKeys / kAmxDepth, 1}, {w.values[0] + d / kAmxTile, 1, kDim / kAmxTile}, count / kAmxDepth);
    store_tiles(w.sums[first] + d, kDim);
  }
}

/// Of the lanes from `first` on, those below `count`.
FORETOKEN_SIMD_INLINE __mmask16 lanes_below(size_t count, size_t first) {
  return count <= first ? 0 : static_cast<__mmask16>((1U << smaller(count - first, kLanes)) - 1U);
}

/// The shares of `count` keys from the scores of the first `seen`, 0 for the others. What the pair has summed is put to the new
/// maximum. A score that is infinite or NaN makes the sum of shares NaN.
void weigh_pair(size_t pair, size_t seen, size_t count, float factor, size_t head_dim, Work& w) {
  const float* scores = w.scores[pair % kUnit];
  const F32x16 scale = F32x16::broadcast(factor);
  F32x16 largest = F32x16::broadcast(kMinusInfinity), poison = F32x16::zero();
  for (size_t i = 0; i < seen; i += kLanes) {
    const __mmask16 lanes = lanes_below(seen, i);
    const F32x16 score = F32x16{_mm512_maskz_loadu_ps(lanes, scores + i)} * scale;
    largest.v = _mm512_mask_max_ps(largest.v, lanes, largest.v, score.v);
    poison = fma(score, F32x16::zero(), poison);
  }
  const float old_max = w.max[pair], block_max = reduce_max(largest);
  F32x16 share_sum = F32x16::load(w.share_sums[pair]);
  if (block_max > old_max) {
    w.max[pair] = block_max;
    const F32x16 correction = F32x16::broadcast(exp_one(old_max - block_max));
    share_sum = share_sum * correction;
    float* sums = w.sums[pair];
    for (size_t d = 0; d < head_dim; d += kLanes) (F32x16::load(sums + d) * correction).store(sums + d);
  }
  share_sum = share_sum + poison;
  const F32x16 negative_max = F32x16::broadcast(-w.max[pair]);
  const auto share = [&](size_t i) {
    const F32x16 exact = exp(fma(F32x16::load(scores + i), scale, negative_max));
    const __m512i words =
        _mm512_maskz_and_epi32(lanes_below(seen, i), rounded_words(exact), _mm512_set1_epi32(static_cast<int>(0xffff0000U)));
    share_sum = share_sum + F32x16{_mm512_castsi512_ps(words)};
    return words;
  };
  for (size_t i = 0; i < count; i += kAmxDepth) {
    const __m512i even = share(i), odd = share(i + kAmxTile);
    _mm512_store_si512(w.shares[pair % kUnit / kAmxTile][i / kAmxDepth][pair % kAmxTile], pair_words(even, odd));
  }
  share_sum.store(w.share_sums[pair]);
}

/// The pairs of a unit take what they see of the block at `position`.
void attend_unit(const GatedAttentionParams& p, const Pairs& pairs, size_t first, size_t position, float factor, Work& w) {
  const size_t last = smaller(first + kUnit, pairs.count()) - 1;
  const size_t longest = smaller(visible_keys(p, pairs, last, position), kKeys);
  if (longest == 0) return;
  const size_t count = (longest + kAmxDepth - 1) / kAmxDepth * kAmxDepth;
  score_unit(first, count, p.head_dim, w);
  for (size_t pair = first; pair < first + kUnit; ++pair) {
    weigh_pair(pair, smaller(visible_keys(p, pairs, pair, position), kKeys), count, factor, p.head_dim, w);
  }
  add_values(first, count, p.head_dim, w);
}

void attend(const GatedAttentionParams& p, const Pairs& pairs, Work& w) {
  const Factors factors(p);
  prepare_pairs(p, pairs, w);
  const size_t longest = visible_keys(p, pairs, pairs.count() - 1, 0);
  for (size_t position = 0; position < longest; position += kKeys) {
    prepare_block(p, pairs, position, smaller(longest - position, kKeys), w);
    for (size_t first = 0; first < pairs.count(); first += kUnit) attend_unit(p, pairs, first, position, factors.score, w);
  }
  for (size_t pair = 0; pair < pairs.count(); ++pair) {
    const size_t row = pairs.row(pair), head = pairs.head(pair);
    finish_row(w.sums[pair], gate_head(p, row, head), p.head_dim, reduce_add(F32x16::load(w.share_sums[pair])) / factors.value,
               out_head(p, row, head));
  }
}

/// Item i is key head i % Hkv of a group of amx_attention_rows rows.
void amx_gated_attention(const GatedAttentionParams& p, uint32_t begin, uint32_t end) {
  const TileConfiguration configuration;
  Work work;
  const size_t heads = p.num_query_heads / p.num_key_heads;
  const size_t rows = amx_attention_rows(heads);
  const size_t groups = groups_of_call(p, rows);
  for (size_t item = begin; item < end; ++item) {
    const size_t turn = item / p.num_key_heads;
    if (turn >= groups) return;
    attend(p, {group_of_turn(p, rows, groups, turn), heads, item % p.num_key_heads}, work);
  }
}

constexpr KernelEntry kEntries[] = {kernel_entry<GatedAttentionParams, amx_gated_attention>("amx_gated_attention")};

}  // namespace

void add_amx_attention_kernels(std::vector<KernelEntry>& list) { append(list, kEntries); }

}  // namespace foretoken::cpu::FORETOKEN_CPU_ISA
