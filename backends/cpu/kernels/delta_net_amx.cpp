// The delta rule of prefill on AMX, in chunks of 32 rows. With G_t the product of the decays up to row t of a chunk, S_0 the
// state before it and r(t, i) = G_t / G_i, unrolling the recurrence of core/ops/gated_delta_rule.h gives
//   delta_t = beta_t (v_t - G_t S_0^T k_t - sum_{i<t} r(t, i) (k_t . k_i) delta_i)
//   o_t     = G_t S_0^T q_t + sum_{i<=t} r(t, i) (q_t . k_i) delta_i
//   S       = G_end S_0 + sum_i k_i (r(end, i) delta_i)^T
// (the chunkwise form of Yang et al., "Parallelizing Linear Transformers with the Delta Rule over Sequence Length", 2024, with
// the decay of "Gated Delta Networks", 2024). Products run on tiles, where each operand is the sum of two BF16 numbers, of which
// the product of the two lower ones is left out: that is good to about 2^-16, while one BF16 number is too coarse for outputs
// that cancel out. The triangular system for delta, the decays and the state stay in float32. Chunks start at the first row of a
// sequence in the call.
#include "backends/cpu/kernels/amx_operands.h"
#include "backends/cpu/kernels/amx_tiles.h"
#include "backends/cpu/kernels/delta_net_rows.h"
#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/kernels/prefill_amx.h"
#include "backends/cpu/kernels/transpose.h"

namespace foretoken::cpu::FORETOKEN_CPU_ISA {
namespace {

constexpr size_t kChunk = 2 * kAmxTile;
constexpr size_t kDim = kAmxDeltaDim;  // of keys and values, at most
static_assert(kChunk == kAmxDepth);    // the rows of a chunk are the depth of one product

/// An operand as upper and lower part.
constexpr size_t kParts = 2;

constexpr size_t kDepths = kDim / kAmxDepth;
constexpr size_t kColumnTiles = kDim / kAmxTile;
constexpr size_t kChunkTiles = kChunk / kAmxTile;

/// What one head works with.
struct Chunk {
  alignas(64) float normalised[2 * kChunk][kDim];                     // keys, then queries
  alignas(64) TileLines rows[kParts][kDepths][2 * kChunkTiles];       // the same
  alignas(64) TileLines keys_packed[kParts][kChunkTiles][kDepths];    // K^T
  alignas(64) TileLines keys_transposed[kParts][kColumnTiles];        // K^T, as first operand
  alignas(64) TileLines state_packed[kParts][kColumnTiles][kDepths];  // S_0
  alignas(64) float from_state[2 * kChunk][kDim];                     // rows S_0
  alignas(64) float scores[2 * kChunk][kChunk];                       // rows K^T
  alignas(64) float ratio[kChunk][kChunk];                            // r(t, i), 0 for i > t
  alignas(64) float delta[kChunk][kDim];
  alignas(64) TileLines delta_packed[kParts][kColumnTiles];
  alignas(64) TileLines delta_remaining[kParts][kColumnTiles];  // r(end, i) delta_i, packed
  alignas(64) TileLines attention[kParts][kChunkTiles];         // r(t, i) (q_t . k_i)
  alignas(64) float decay[kChunk];
  alignas(64) float beta[kChunk];
  alignas(64) float since_start[kChunk];  // G_t
};

/// ln(1 + y) for y in 0 .. 1: 2 artanh(y / (2 + y)) by its series, relative error below 2e-7.
FORETOKEN_SIMD_INLINE F32x16 log1p_of_fraction(F32x16 y) {
  const F32x16 z = y / (F32x16::broadcast(2.0F) + y);
  const F32x16 square = z * z;
  F32x16 sum = F32x16::broadcast(1.0F / 13.0F);
  for (const float term : {1.0F / 11.0F, 1.0F / 9.0F, 1.0F / 7.0F, 1.0F / 5.0F, 1.0F / 3.0F, 1.0F}) {
    sum = fma(sum, square, F32x16::broadcast(term));
  }
  return (z + z) * sum;
}

/// The two parts of each lane, in the upper halves of their words.
struct SplitWords {
  __m512i upper, lower;

  explicit FORETOKEN_SIMD_INLINE SplitWords(F32x16 a) {
    upper = _mm512_and_si512(rounded_words(a), _mm512_set1_epi32(static_cast<int>(0xffff0000U)));
    lower = rounded_words(a - F32x16{_mm512_castsi512_ps(upper)});
  }
};

FORETOKEN_SIMD_INLINE void store_split(F32x16 a, uint16_t* upper, uint16_t* lower) {
  const SplitWords words(a);
  _mm256_store_si256(reinterpret_cast<__m256i*>(upper), _mm512_cvtepi32_epi16(_mm512_srli_epi32(words.upper, 16)));
  _mm256_store_si256(reinterpret_cast<__m256i*>(lower), _mm512_cvtepi32_epi16(_mm512_srli_epi32(words.lower, 16)));
}

/// Sixteen columns of two rows, packed.
FORETOKEN_SIMD_INLINE void store_split_pair(F32x16 even, F32x16 odd, uint16_t* upper, uint16_t* lower) {
  const SplitWords first(even), second(odd);
  _mm512_store_si512(upper, pair_words(first.upper, second.upper));
  _mm512_store_si512(lower, pair_words(first.lower, second.lower));
}

/// Decays multiply to nothing: what is smaller than this becomes 0 before it can become subnormal, which is slow.
constexpr float kSmallestProduct = 1e-30F;

FORETOKEN_SIMD_INLINE F32x16 flush(F32x16 a) {
  return {_mm512_maskz_mov_ps(_mm512_cmp_ps_mask(a.v, _mm512_set1_ps(kSmallestProduct), _CMP_NLT_UQ), a.v)};
}

/// Decays and betas of `count` rows from `row` on; the rest of the chunk does nothing.
void prepare_gates(const GatedDeltaRuleParams& p, size_t row, size_t count, size_t head, Chunk& c) {
  const float rate = std::exp(p.A_log[head]);
  alignas(64) float a[kChunk] = {};
  alignas(64) float b[kChunk] = {};
  for (size_t i = 0; i < count; ++i) {
    a[i] = p.a[(row + i) * p.a_stride + head] + p.dt_bias[head];
    b[i] = p.b[(row + i) * p.b_stride + head];
  }
  for (size_t i = 0; i < kChunk; i += kLanes) {
    const F32x16 x = F32x16::load(a + i);
    const F32x16 negative = F32x16::zero() - x;
    const F32x16 softplus = max(x, F32x16::zero()) + log1p_of_fraction(exp(min(x, negative)));
    exp(F32x16::broadcast(-rate) * softplus).store(c.decay + i);
    sigmoid(F32x16::load(b + i)).store(c.beta + i);
  }
  for (size_t i = count; i < kChunk; ++i) {
    c.decay[i] = 1.0F;
    c.beta[i] = 0.0F;
  }
  float total = 1.0F;
  F32x16 low = F32x16::zero(), high = F32x16::zero();
  for (size_t t = 0; t < kChunk; ++t) {
    total *= c.decay[t];
    if (total < kSmallestProduct) total = 0.0F;
    c.since_start[t] = total;
    const F32x16 decay = F32x16::broadcast(c.decay[t]);
    flush(low * decay).store(c.ratio[t]);
    flush(high * decay).store(c.ratio[t] + kLanes);
    c.ratio[t][t] = 1.0F;
    low = F32x16::load(c.ratio[t]);
    high = F32x16::load(c.ratio[t] + kLanes);
  }
}

/// Keys and queries of `count` rows in every form that products need.
void prepare_rows(const GatedDeltaRuleParams& p, size_t row, size_t count, size_t key_head, Chunk& c) {
  const float query_scale = 1.0F / std::sqrt(static_cast<float>(p.key_dim));
  for (size_t i = 0; i < kChunk; ++i) {
    if (i < count) {
      const float* qkv = p.qkv + (row + i) * p.qkv_stride;
      l2_normalise(qkv + (p.num_key_heads + key_head) * p.key_dim, 1.0F, c.normalised[i], p.key_dim);
      l2_normalise(qkv + key_head * p.key_dim, query_scale, c.normalised[kChunk + i], p.key_dim);
    } else {
      __builtin_memset(c.normalised[i], 0, p.key_dim * sizeof(float));
      __builtin_memset(c.normalised[kChunk + i], 0, p.key_dim * sizeof(float));
    }
    for (const size_t r : {i, kChunk + i}) {
      for (size_t k = 0; k < p.key_dim; k += kLanes) {
        const size_t tile = r / kAmxTile, line = r % kAmxTile, depth = k / kAmxDepth, at = k % kAmxDepth;
        store_split(F32x16::load(c.normalised[r] + k), c.rows[0][depth][tile][line] + at, c.rows[1][depth][tile][line] + at);
      }
    }
  }
  for (size_t first = 0; first < kChunk; first += kAmxTile) {
    const size_t row_tile = first / kAmxTile;
    __m512 tile[kLanes];
    for (size_t part = 0; part < kParts; ++part) {
      for (size_t depth = 0; depth < p.key_dim / kAmxDepth; ++depth) {
        for (size_t i = 0; i < kAmxTile; ++i) tile[i] = _mm512_load_ps(c.rows[part][depth][row_tile][i]);
        transpose(tile);
        for (size_t pair = 0; pair < kAmxTile; ++pair) _mm512_store_ps(c.keys_packed[part][row_tile][depth][pair], tile[pair]);
      }
    }
    for (size_t k = 0; k < p.key_dim; k += kLanes) {
      for (size_t i = 0; i < kAmxTile; ++i) tile[i] = _mm512_load_ps(c.normalised[first + i] + k);
      transpose(tile);
      const size_t key_tile = k / kAmxTile;
      for (size_t i = 0; i < kLanes; ++i) {
        store_split(F32x16{tile[i]}, c.keys_transposed[0][key_tile][i] + first, c.keys_transposed[1][key_tile][i] + first);
      }
    }
  }
}

void pack_state(const GatedDeltaRuleParams& p, const float* state, size_t first, size_t last, Chunk& c) {
  for (size_t k = first; k < last; k += 2) {
    const float* even = state + k * p.value_dim;
    for (size_t n = 0; n < p.value_dim; n += kLanes) {
      const size_t depth = k / kAmxDepth, line = k % kAmxDepth / 2;
      store_split_pair(F32x16::load(even + n), F32x16::load(even + p.value_dim + n), c.state_packed[0][n / kAmxTile][depth][line],
                       c.state_packed[1][n / kAmxTile][depth][line]);
    }
  }
}

/// Parts of two operands whose products count, the largest last.
struct PartPair {
  size_t first, second;
};
constexpr PartPair kPartPairs[] = {{1, 0}, {0, 1}, {0, 0}};

/// Tiles of an operand: those of its upper parts, and as many of its lower ones `part` tiles further on.
struct Tiles {
  const TileLines* data;
  size_t part;
};

/// out = rows times sixteen columns, whose tiles lie in the order of the depth.
__attribute__((target("amx-tile,amx-bf16"))) void multiply_rows(const Chunk& c, size_t key_dim, Tiles columns, float* out,
                                                                size_t out_stride) {
  memory_fence_for_compiler();
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (const PartPair& part : kPartPairs) {
    for (size_t depth = 0; depth < key_dim / kAmxDepth; ++depth) {
      const TileLines* rows = c.rows[part.first][depth];
      _tile_loadd(4, columns.data[part.second * columns.part + depth], kLineBytes);
      _tile_loadd(5, rows[0], kLineBytes);
      _tile_dpbf16ps(0, 5, 4);
      _tile_loadd(6, rows[1], kLineBytes);
      _tile_dpbf16ps(1, 6, 4);
      _tile_loadd(7, rows[2], kLineBytes);
      _tile_dpbf16ps(2, 7, 4);
      _tile_loadd(5, rows[3], kLineBytes);
      _tile_dpbf16ps(3, 5, 4);
    }
  }
  _tile_stored(0, out, out_stride * sizeof(float));
  _tile_stored(1, out + kAmxTile * out_stride, out_stride * sizeof(float));
  _tile_stored(2, out + 2 * kAmxTile * out_stride, out_stride * sizeof(float));
  _tile_stored(3, out + 3 * kAmxTile * out_stride, out_stride * sizeof(float));
  memory_fence_for_compiler();
}

/// into[32][32] += rows times columns, two tiles of each.
__attribute__((target("amx-tile,amx-bf16"))) void add_product(Tiles rows, Tiles columns, float* into, size_t stride) {
  const size_t bytes = stride * sizeof(float);
  float* lower = into + kAmxTile * stride;
  memory_fence_for_compiler();
  _tile_loadd(0, into, bytes);
  _tile_loadd(1, into + kAmxTile, bytes);
  _tile_loadd(2, lower, bytes);
  _tile_loadd(3, lower + kAmxTile, bytes);
  for (const PartPair& part : kPartPairs) {
    const TileLines* first = rows.data + part.first * rows.part;
    const TileLines* second = columns.data + part.second * columns.part;
    _tile_loadd(4, first[0], kLineBytes);
    _tile_loadd(5, first[1], kLineBytes);
    _tile_loadd(6, second[0], kLineBytes);
    _tile_loadd(7, second[1], kLineBytes);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, into, bytes);
  _tile_stored(1, into + kAmxTile, bytes);
  _tile_stored(2, lower, bytes);
  _tile_stored(3, lower + kAmxTile, bytes);
  memory_fence_for_compiler();
}

/// Solves for delta in columns `column` .. of kVectors vectors, row after row.
template <size_t kVectors>
void solve_columns(const GatedDeltaRuleParams& p, const float* values, size_t count, size_t column, Chunk& c) {
  for (size_t t = 0; t < kChunk; ++t) {
    float* delta = c.delta[t] + column;
    if (t >= count) {
      __builtin_memset(delta, 0, kVectors * kLanes * sizeof(float));
      continue;
    }
    F32x16 sum[kVectors];
    const F32x16 kept = F32x16::broadcast(-c.since_start[t]);
    for (size_t j = 0; j < kVectors; ++j) {
      const size_t at = column + j * kLanes;
      sum[j] = fma(kept, F32x16::load(c.from_state[t] + at), F32x16::load(values + t * p.qkv_stride + at));
    }
    for (size_t i = 0; i < t; ++i) {
      const F32x16 factor = F32x16::broadcast(-(c.ratio[t][i] * c.scores[t][i]));
      for (size_t j = 0; j < kVectors; ++j) sum[j] = fma(factor, F32x16::load(c.delta[i] + column + j * kLanes), sum[j]);
    }
    const F32x16 beta = F32x16::broadcast(c.beta[t]);
    for (size_t j = 0; j < kVectors; ++j) (beta * sum[j]).store(delta + j * kLanes);
  }
}

void solve(const GatedDeltaRuleParams& p, const float* values, size_t count, Chunk& c) {
  constexpr size_t kWide = 8, kNarrow = 4;  // vectors; kNarrow divides every dv that is taken
  size_t column = 0;
  for (; column + kWide * kLanes <= p.value_dim; column += kWide * kLanes) solve_columns<kWide>(p, values, count, column, c);
  for (; column < p.value_dim; column += kNarrow * kLanes) solve_columns<kNarrow>(p, values, count, column, c);
  for (size_t i = 0; i < kChunk; i += 2) {
    const F32x16 even_left = F32x16::broadcast(c.ratio[kChunk - 1][i]), odd_left = F32x16::broadcast(c.ratio[kChunk - 1][i + 1]);
    for (size_t n = 0; n < p.value_dim; n += kLanes) {
      const F32x16 even = F32x16::load(c.delta[i] + n), odd = F32x16::load(c.delta[i + 1] + n);
      const size_t tile = n / kAmxTile;
      store_split_pair(even, odd, c.delta_packed[0][tile][i / 2], c.delta_packed[1][tile][i / 2]);
      store_split_pair(even_left * even, odd_left * odd, c.delta_remaining[0][tile][i / 2], c.delta_remaining[1][tile][i / 2]);
    }
  }
}

void write_outputs(const GatedDeltaRuleParams& p, float* out, size_t count, Chunk& c) {
  for (size_t t = 0; t < kChunk; ++t) {
    for (size_t i = 0; i < kChunk; i += kLanes) {
      store_split(F32x16::load(c.ratio[t] + i) * F32x16::load(c.scores[kChunk + t] + i),
                  c.attention[0][t / kAmxTile][t % kAmxTile] + i, c.attention[1][t / kAmxTile][t % kAmxTile] + i);
    }
    const F32x16 kept = F32x16::broadcast(c.since_start[t]);
    float* row = c.from_state[kChunk + t];
    for (size_t n = 0; n < p.value_dim; n += kLanes) (kept * F32x16::load(row + n)).store(row + n);
  }
  for (size_t n = 0; n < p.value_dim; n += 2 * kAmxTile) {
    add_product({c.attention[0], kChunkTiles}, {c.delta_packed[0] + n / kAmxTile, kColumnTiles}, c.from_state[kChunk] + n, kDim);
  }
  for (size_t t = 0; t < count; ++t) {
    __builtin_memcpy(out + t * p.out_stride, c.from_state[kChunk + t], p.value_dim * sizeof(float));
  }
}

/// Advances the state by the chunk, and packs it for the next one.
void advance_state(const GatedDeltaRuleParams& p, float* state, Chunk& c) {
  const F32x16 kept = F32x16::broadcast(c.since_start[kChunk - 1]);
  for (size_t k = 0; k < p.key_dim; k += kChunk) {
    float* block = state + k * p.value_dim;
    for (size_t i = 0; i < kChunk * p.value_dim; i += kLanes) (kept * F32x16::load(block + i)).store(block + i);
    for (size_t n = 0; n < p.value_dim; n += 2 * kAmxTile) {
      add_product({c.keys_transposed[0] + k / kAmxTile, kColumnTiles}, {c.delta_remaining[0] + n / kAmxTile, kColumnTiles},
                  block + n, p.value_dim);
    }
    pack_state(p, state, k, k + kChunk, c);
  }
}

void amx_gated_delta_rule(const GatedDeltaRuleParams& p, uint32_t begin, uint32_t end) {
  const TileConfiguration configuration;
  Chunk c;
  for (size_t item = begin; item < end; ++item) {
    const SequenceRows rows = sequence_rows(p.query_start_loc, p.state_slots, p.num_slots, item / p.num_value_heads);
    if (rows.count == 0) continue;
    const size_t head = item % p.num_value_heads;
    const size_t key_head = head / (p.num_value_heads / p.num_key_heads);
    float* state = p.state + (rows.slot * p.num_value_heads + head) * p.key_dim * p.value_dim;
    const size_t committed = commit_count(p.num_commit, p.record_rows, item / p.num_value_heads);
    commit_columns(p, rows.slot, committed, head, 0, p.value_dim);
    pack_state(p, state, 0, p.key_dim, c);
    for (size_t first = 0; first < rows.count; first += kChunk) {
      const size_t row = rows.first + first;
      const size_t count = rows.count - first < kChunk ? rows.count - first : kChunk;
      prepare_gates(p, row, count, head, c);
      prepare_rows(p, row, count, key_head, c);
      for (size_t n = 0; n < p.value_dim; n += kAmxTile) {
        multiply_rows(c, p.key_dim, {c.state_packed[0][n / kAmxTile], kColumnTiles * kDepths}, c.from_state[0] + n, kDim);
      }
      for (size_t n = 0; n < kChunk; n += kAmxTile) {
        multiply_rows(c, p.key_dim, {c.keys_packed[0][n / kAmxTile], kChunkTiles * kDepths}, c.scores[0] + n, kChunk);
      }
      solve(p, p.qkv + row * p.qkv_stride + 2 * p.num_key_heads * p.key_dim + head * p.value_dim, count, c);
      write_outputs(p, p.out + row * p.out_stride + head * p.value_dim, count, c);
      gate_outputs(p, row, count, head);
      advance_state(p, state, c);
    }
  }
}

constexpr KernelEntry kEntries[] = {kernel_entry<GatedDeltaRuleParams, amx_gated_delta_rule>("amx_gated_delta_rule")};

}  // namespace

void add_amx_delta_kernels(std::vector<KernelEntry>& list) { append(list, kEntries); }

}  // namespace foretoken::cpu::FORETOKEN_CPU_ISA
