// Gated delta net: convolution and delta rule, both with the commit. A state element sees the same operations in the same order
// whether its rows come one by one, in one call, or recorded and committed: s = fma(k, delta, decay * s).
#include "backends/cpu/kernels/delta_net_params.h"

#include <cmath>

#include "backends/cpu/kernels/delta_net_rows.h"
#include "backends/cpu/kernels/kernels.h"

namespace foretoken::cpu::FORETOKEN_CPU_ISA {
namespace {

constexpr size_t kUnroll = 4;  // partial sums over the key dimension: term i goes to sum i % kUnroll
constexpr size_t kSliceVectors = kStateSlice / kLanes;
constexpr size_t kConvHistory = 3;

/// `lanes[j]` has element j of each of `count` channels, which lie kElements apart each.
template <size_t kElements>
FORETOKEN_SIMD_INLINE void load_channels(const float* channels, size_t count, F32x16* lanes) {
  float apart[kElements][kLanes] = {};
  for (size_t c = 0; c < count; ++c) {
    for (size_t j = 0; j < kElements; ++j) apart[j][c] = channels[c * kElements + j];
  }
  for (size_t j = 0; j < kElements; ++j) lanes[j] = F32x16::load(apart[j]);
}

/// Sixteen channels of a convolution: the rows before the next one, oldest first, and the weights.
struct ConvLanes {
  size_t count;  // of channels that exist
  F32x16 age[kConvHistory];
  F32x16 weight[kConvHistory + 1];

  FORETOKEN_SIMD_INLINE void store_history(float* state) const {
    float lanes[kConvHistory][kLanes];
    for (size_t j = 0; j < kConvHistory; ++j) age[j].store(lanes[j]);
    for (size_t c = 0; c < count; ++c) {
      for (size_t j = 0; j < kConvHistory; ++j) state[c * kConvHistory + j] = lanes[j][c];
    }
  }
  FORETOKEN_SIMD_INLINE void push(F32x16 x) {
    age[0] = age[1];
    age[1] = age[2];
    age[2] = x;
  }
  FORETOKEN_SIMD_INLINE F32x16 next(F32x16 x) {
    const F32x16 y = fma(weight[3], x, fma(weight[2], age[2], fma(weight[1], age[1], weight[0] * age[0])));
    push(x);
    return y;
  }
};

/// The channels of an item, in vectors: a row of it is one run of memory.
class ConvTile {
 public:
  ConvTile(const CausalConv1dSiluParams& p, size_t tile, size_t slot) : first_(tile * kConvTile) {
    const size_t count = p.num_channels - first_ < kConvTile ? p.num_channels - first_ : kConvTile;
    num_vectors_ = (count + kLanes - 1) / kLanes;
    state_ = p.conv_state + (slot * p.num_channels + first_) * kConvHistory;
    for_each([&](ConvLanes& lanes, size_t at) {
      lanes.count = count - at < kLanes ? count - at : kLanes;
      load_channels<kConvHistory>(state_ + at * kConvHistory, lanes.count, lanes.age);
      load_channels<kConvHistory + 1>(p.weight + (first_ + at) * (kConvHistory + 1), lanes.count, lanes.weight);
    });
  }

  /// Of all channels.
  [[nodiscard]] size_t first() const { return first_; }
  /// Calls call(vector, its first channel of the tile) for each vector.
  template <class Call>
  FORETOKEN_SIMD_INLINE void for_each(Call call) {
    for (size_t v = 0; v < num_vectors_; ++v) call(lanes_[v], v * kLanes);
  }
  void store_history() {
    for_each([&](const ConvLanes& lanes, size_t at) { lanes.store_history(state_ + at * kConvHistory); });
  }

 private:
  size_t first_;
  size_t num_vectors_;
  float* state_;
  ConvLanes lanes_[kConvTile / kLanes];
};

void causal_conv1d_silu(const CausalConv1dSiluParams& p, uint32_t begin, uint32_t end) {
  const size_t tiles = (p.num_channels + kConvTile - 1) / kConvTile;
  for (size_t item = begin; item < end; ++item) {
    const SequenceRows rows = sequence_rows(p.query_start_loc, p.state_slots, p.num_slots, item / tiles);
    if (rows.count == 0) continue;
    ConvTile tile(p, item % tiles, rows.slot);
    float* record =
        p.conv_record == nullptr ? nullptr : p.conv_record + rows.slot * p.record_rows * p.num_channels + tile.first();
    const size_t committed = commit_count(p.num_commit, p.record_rows, item / tiles);
    for (size_t i = 0; i < committed; ++i) {
      const float* row = record + i * p.num_channels;
      tile.for_each([&](ConvLanes& lanes, size_t at) { lanes.push(load_lanes(row + at, lanes.count)); });
    }
    if (p.records && committed > 0) tile.store_history();
    for (size_t i = 0; i < rows.count; ++i) {
      const float* x = p.x + (rows.first + i) * p.x_stride + tile.first();
      float* out = p.out + (rows.first + i) * p.out_stride + tile.first();
      float* row = p.records && i < p.record_rows ? record + i * p.num_channels : nullptr;
      tile.for_each([&](ConvLanes& lanes, size_t at) {
        const F32x16 input = load_lanes(x + at, lanes.count);
        store_lanes(silu(lanes.next(input)), out + at, lanes.count);
        if (row != nullptr) store_lanes(input, row + at, lanes.count);
      });
    }
    if (!p.records) tile.store_history();
  }
}

/// decay = exp(-exp(A_log) * softplus(a + dt_bias)) and beta = sigmoid(b).
struct Gates {
  float decay;
  float beta;
};

FORETOKEN_SIMD_INLINE Gates gates(double decay_rate, float a, float dt_bias, float b) {
  const double x = static_cast<double>(a) + static_cast<double>(dt_bias);
  const double softplus = (x > 0.0 ? x : 0.0) + std::log1p(std::exp(-std::fabs(x)));
  return {.decay = static_cast<float>(std::exp(-decay_rate * softplus)),
          .beta = static_cast<float>(1.0 / (1.0 + std::exp(-static_cast<double>(b))))};
}

/// kVectors vectors of one row of a slice; `width` columns of it exist.
template <size_t kVectors>
struct RowVectors {
  F32x16 v[kVectors];

  static FORETOKEN_SIMD_INLINE RowVectors zero() {
    RowVectors row;
    for (F32x16& vector : row.v) vector = F32x16::zero();
    return row;
  }
  template <bool kWhole>
  static FORETOKEN_SIMD_INLINE RowVectors load(const float* p, size_t width) {
    RowVectors row;
    for (size_t j = 0; j < kVectors; ++j) {
      const size_t at = j * kLanes;
      if (kWhole) {
        row.v[j] = F32x16::load(p + at);
      } else {
        row.v[j] = at < width ? F32x16::load_partial(p + at, width - at < kLanes ? width - at : kLanes) : F32x16::zero();
      }
    }
    return row;
  }
  template <bool kWhole>
  FORETOKEN_SIMD_INLINE void store(float* p, size_t width) const {
    for (size_t j = 0; j < kVectors; ++j) {
      const size_t at = j * kLanes;
      if (kWhole) {
        v[j].store(p + at);
      } else if (at < width) {
        v[j].store_partial(p + at, width - at < kLanes ? width - at : kLanes);
      }
    }
  }
  /// this += factor * row
  FORETOKEN_SIMD_INLINE void add(const RowVectors& row, F32x16 factor) {
    for (size_t j = 0; j < kVectors; ++j) v[j] = fma(row.v[j], factor, v[j]);
  }
};
using SliceRow = RowVectors<kSliceVectors>;

/// Sums over the key dimension, term i in sum i % kUnroll.
template <size_t kVectors>
struct KeySums {
  RowVectors<kVectors> part[kUnroll];

  static FORETOKEN_SIMD_INLINE KeySums zero() {
    KeySums sums;
    for (RowVectors<kVectors>& row : sums.part) row = RowVectors<kVectors>::zero();
    return sums;
  }
  FORETOKEN_SIMD_INLINE F32x16 total(size_t j) const { return (part[0].v[j] + part[1].v[j]) + (part[2].v[j] + part[3].v[j]); }
};

/// Calls term(i, sum that takes it) for i < key_dim, in order.
template <class Term>
FORETOKEN_SIMD_INLINE void for_each_key(size_t key_dim, const Term& term) {
  size_t i = 0;
  for (; i + kUnroll <= key_dim; i += kUnroll) {
    for (size_t u = 0; u < kUnroll; ++u) term(i + u, u);
  }
  for (size_t u = 0; i < key_dim; ++i, ++u) term(i, u);
}

/// A state slice: dk rows of `width` columns, `stride` elements apart.
struct Slice {
  float* data;
  size_t stride;

  [[nodiscard]] FORETOKEN_SIMD_INLINE float* row(size_t i) const { return data + i * stride; }
};

/// S^T k of a slice.
template <bool kWhole>
FORETOKEN_SIMD_INLINE SliceRow times_key(Slice state, size_t key_dim, size_t width, const float* k) {
  KeySums<kSliceVectors> sums = KeySums<kSliceVectors>::zero();
  for_each_key(key_dim, [&](size_t i, size_t u) {
    sums.part[u].add(SliceRow::load<kWhole>(state.row(i), width), F32x16::broadcast(k[i]));
  });
  SliceRow result;
  for (size_t j = 0; j < kSliceVectors; ++j) result.v[j] = sums.total(j);
  return result;
}

/// What a token does to a slice.
struct DeltaToken {
  const float* q;
  const float* k;
  const float* next_k;  // of the next token; null: there is none
  float decay;
};

/// Reads `from`, adds the token and writes `to` (which may be the same, and is not written unless kStore). Gives the output, and
/// S^T k of the next token. The columns are taken in halves, whose sums stay in registers.
template <bool kWhole, bool kStore, bool kHasNext>
FORETOKEN_SIMD_INLINE void add_token(Slice from, Slice to, size_t key_dim, size_t width, const DeltaToken& token,
                                     const SliceRow& delta, SliceRow& out, SliceRow& next) {
  constexpr size_t kHalf = kSliceVectors / 2;
  using Half = RowVectors<kHalf>;
  const F32x16 decay = F32x16::broadcast(token.decay);
  for (size_t first = 0; first < kSliceVectors; first += kHalf) {
    const size_t column = first * kLanes;
    const size_t columns = column < width ? width - column : 0;
    KeySums<kHalf> outs = KeySums<kHalf>::zero();
    KeySums<kHalf> nexts = KeySums<kHalf>::zero();
    for_each_key(key_dim, [&](size_t i, size_t u) {
      Half s = Half::template load<kWhole>(from.row(i) + column, columns);
      const F32x16 key = F32x16::broadcast(token.k[i]);
      for (size_t j = 0; j < kHalf; ++j) s.v[j] = fma(key, delta.v[first + j], decay * s.v[j]);
      outs.part[u].add(s, F32x16::broadcast(token.q[i]));
      if (kHasNext) nexts.part[u].add(s, F32x16::broadcast(token.next_k[i]));
      if (kStore) s.template store<kWhole>(to.row(i) + column, columns);
    });
    for (size_t j = 0; j < kHalf; ++j) {
      out.v[first + j] = outs.total(j);
      if (kHasNext) next.v[first + j] = nexts.total(j);
    }
  }
}

/// Where one item of the delta rule works.
struct DeltaItem {
  SequenceRows rows;
  size_t head;
  size_t key_head;
  size_t committed;  // recorded rows that go into the state first
};

/// What a head needs of some rows, computed once for all its slices.
constexpr size_t kRowBlock = kMaxRecordRows;
struct RowBlock {
  size_t first;  // index of the first row within the sequence
  size_t count;
  Gates gate[kRowBlock];
  float q[kRowBlock][kMaxKeyDim];
  float k[kRowBlock][kMaxKeyDim];
};

void prepare_rows(const GatedDeltaRuleParams& p, const DeltaItem& item, RowBlock& block) {
  const double decay_rate = std::exp(static_cast<double>(p.A_log[item.head]));
  const float query_scale = 1.0F / std::sqrt(static_cast<float>(p.key_dim));
  for (size_t i = 0; i < block.count; ++i) {
    const size_t row = item.rows.first + block.first + i;
    const float* qkv = p.qkv + row * p.qkv_stride;
    l2_normalise(qkv + item.key_head * p.key_dim, query_scale, block.q[i], p.key_dim);
    l2_normalise(qkv + (p.num_key_heads + item.key_head) * p.key_dim, 1.0F, block.k[i], p.key_dim);
    block.gate[i] = gates(decay_rate, p.a[row * p.a_stride + item.head], p.dt_bias[item.head], p.b[row * p.b_stride + item.head]);
  }
}

/// Records keys and decays of a block, after the last of its slices has read those of the rows that it commits.
void record_keys(const GatedDeltaRuleParams& p, const DeltaItem& item, const RowBlock& block) {
  for (size_t i = 0; i < block.count; ++i) {
    const size_t record = (item.rows.slot * p.record_rows + block.first + i) * p.num_value_heads + item.head;
    p.decay_record[record] = block.gate[i].decay;
    std::memcpy(p.key_record + record * p.key_dim, block.k[i], p.key_dim * sizeof(float));
  }
}

template <bool kWhole>
FORETOKEN_SIMD_INLINE void copy_slice(Slice from, Slice to, size_t key_dim, size_t width) {
  for (size_t i = 0; i < key_dim; ++i) {
    const SliceRow row = SliceRow::load<kWhole>(from.row(i), width);
    row.template store<kWhole>(to.row(i), width);
  }
}

/// The rows of a block on one slice. Recorded rows, and all but a few others, work on a private copy, whose rows lie together.
template <bool kWhole>
void delta_rule_slice(const GatedDeltaRuleParams& p, const DeltaItem& item, const RowBlock& block, size_t column, size_t width,
                      float* scratch) {
  constexpr size_t kFewRows = 2;
  const bool is_private = p.records || block.count > kFewRows;
  const Slice state = {p.state + (item.rows.slot * p.num_value_heads + item.head) * p.key_dim * p.value_dim + column,
                       p.value_dim};
  const Slice target = is_private ? Slice{scratch, kStateSlice} : state;
  SliceRow kv = times_key<kWhole>(state, p.key_dim, width, block.k[0]);
  for (size_t i = 0; i < block.count; ++i) {
    const size_t row = item.rows.first + block.first + i;
    const float* value = p.qkv + row * p.qkv_stride + 2 * p.num_key_heads * p.key_dim + item.head * p.value_dim + column;
    const SliceRow v = SliceRow::load<kWhole>(value, width);
    const Slice from = i == 0 ? state : target;
    const bool has_next = i + 1 < block.count;
    const DeltaToken token{block.q[i], block.k[i], has_next ? block.k[i + 1] : nullptr, block.gate[i].decay};
    const F32x16 decay = F32x16::broadcast(token.decay);
    const F32x16 beta = F32x16::broadcast(block.gate[i].beta);
    SliceRow delta, out;
    for (size_t j = 0; j < kSliceVectors; ++j) delta.v[j] = beta * (v.v[j] - decay * kv.v[j]);
    if (has_next) {
      add_token<kWhole, true, true>(from, target, p.key_dim, width, token, delta, out, kv);
    } else if (p.records) {  // nothing reads the state that the last recorded row leaves behind
      add_token<kWhole, false, false>(from, target, p.key_dim, width, token, delta, out, kv);
    } else {
      add_token<kWhole, true, false>(from, target, p.key_dim, width, token, delta, out, kv);
    }
    out.store<kWhole>(p.out + row * p.out_stride + item.head * p.value_dim + column, width);
    if (!p.records) continue;
    const size_t record = (item.rows.slot * p.record_rows + i) * p.num_value_heads + item.head;
    delta.store<kWhole>(p.delta_record + record * p.value_dim + column, width);
  }
  if (is_private && !p.records) copy_slice<kWhole>(target, state, p.key_dim, width);
}

/// All slices of a head through the rows of a block.
void delta_rule_block(const GatedDeltaRuleParams& p, const DeltaItem& item, const RowBlock& block, float* scratch) {
  for (size_t column = 0; column < p.value_dim; column += kStateSlice) {
    const size_t width = p.value_dim - column < kStateSlice ? p.value_dim - column : kStateSlice;
    if (block.first == 0) commit_columns(p, item.rows.slot, item.committed, item.head, column, width);
    if (width == kStateSlice) {
      delta_rule_slice<true>(p, item, block, column, width, scratch);
    } else {
      delta_rule_slice<false>(p, item, block, column, width, scratch);
    }
  }
  if (p.records) record_keys(p, item, block);
  gate_outputs(p, item.rows.first + block.first, block.count, item.head);
}

void gated_delta_rule(const GatedDeltaRuleParams& p, uint32_t begin, uint32_t end) {
  float scratch[kMaxKeyDim * kStateSlice];
  RowBlock block;
  for (size_t index = begin; index < end; ++index) {
    const size_t sequence = index / p.num_value_heads;
    DeltaItem item{};
    item.rows = sequence_rows(p.query_start_loc, p.state_slots, p.num_slots, sequence);
    if (p.records && item.rows.count > p.record_rows) item.rows.count = p.record_rows;
    item.head = index % p.num_value_heads;
    item.key_head = item.head / (p.num_value_heads / p.num_key_heads);
    item.committed = commit_count(p.num_commit, p.record_rows, sequence);
    for (block.first = 0; block.first < item.rows.count; block.first += block.count) {
      block.count = item.rows.count - block.first < kRowBlock ? item.rows.count - block.first : kRowBlock;
      prepare_rows(p, item, block);
      delta_rule_block(p, item, block, scratch);
    }
  }
}

constexpr KernelEntry kEntries[] = {
    kernel_entry<CausalConv1dSiluParams, causal_conv1d_silu>("causal_conv1d_silu"),
    kernel_entry<GatedDeltaRuleParams, gated_delta_rule>("gated_delta_rule"),
};

}  // namespace

void add_delta_net_kernels(std::vector<KernelEntry>& list) { append(list, kEntries); }

}  // namespace foretoken::cpu::FORETOKEN_CPU_ISA
