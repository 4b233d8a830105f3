#include <cmath>

#include "core/op_case.h"
#include "core/ops/case_parts.h"
#include "core/ops/gated_attention.h"

namespace foretoken {
namespace {

struct AttentionShape {
  int64_t num_sequences, num_rows;  // rows in the call; several sequences share them raggedly and may leave padding
  int64_t max_rows;                 // of one sequence
  int64_t max_seq_len;
  int64_t num_heads = 8, num_kv_heads = 2, head_dim = 256;
  int64_t block_size = 16;
  DType cache_dtype = DType::kBF16;
  bool strided = false;
  DType dtype = DType::kF32;       // of q and out
  DType gate_dtype = DType::kF32;  // of q_gate
  double query_sigma = 1.0;
  bool full_length = false;  // every sequence as long as the bucket allows
  LinearPrecision precision = LinearPrecision::kExact;
};

/// The batch of one run: lengths, and blocks handed out in random order.
struct Batch {
  std::vector<int32_t> query_start_loc;
  std::vector<int32_t> seq_lens;
  std::vector<std::vector<int32_t>> block_table;
};

int64_t blocks_per_sequence(const AttentionShape& shape) { return (shape.max_seq_len + shape.block_size - 1) / shape.block_size; }
int64_t blocks_of(const AttentionShape& shape) { return shape.num_sequences * blocks_per_sequence(shape) + 1; }

Batch draw_batch(const AttentionShape& shape, uint64_t seed) {
  std::mt19937_64 generator(seed);
  const std::vector<int32_t> rows = case_parts::ragged_rows(generator, shape.num_sequences, shape.num_rows, shape.max_rows);
  const std::vector<int32_t> blocks = case_parts::sample_distinct(generator, blocks_of(shape), blocks_of(shape));
  Batch batch{.query_start_loc = case_parts::start_locations(rows), .seq_lens = {}, .block_table = {}};
  size_t next_block = 0;
  for (const int32_t count : rows) {
    const bool empty = count == 0;
    const int64_t length = shape.full_length ? shape.max_seq_len
                           : empty           ? 0
                                             : case_parts::draw(generator, count, shape.max_seq_len);
    batch.seq_lens.push_back(static_cast<int32_t>(length));
    std::vector<int32_t> table(static_cast<size_t>(blocks_per_sequence(shape) + 2), -1);
    for (int64_t used = 0; used * shape.block_size < length; ++used) table[static_cast<size_t>(used)] = blocks[next_block++];
    batch.block_table.push_back(std::move(table));
  }
  return batch;
}

/// Normal values where a sequence has positions, NaN everywhere else: memory that no kernel may let into a result.
Fill cache_fill(const AttentionShape& shape, const Batch& batch, double sigma) {
  return [shape, batch, sigma](std::mt19937_64& generator, std::span<double> values) {
    std::ranges::fill(values, std::nan(""));
    const auto slot_elements = static_cast<size_t>(shape.num_kv_heads * shape.head_dim);
    for (size_t b = 0; b < batch.seq_lens.size(); ++b) {
      for (int64_t position = 0; position < batch.seq_lens[b]; ++position) {
        const int64_t block = batch.block_table[b][static_cast<size_t>(position / shape.block_size)];
        const auto slot = static_cast<size_t>(block * shape.block_size + position % shape.block_size);
        fill::normal(sigma)(generator, values.subspan(slot * slot_elements, slot_elements));
      }
    }
  };
}

Tensor heads(OperandMaker& maker, const AttentionShape& shape, int64_t width, const Fill& fill) {
  const Shape extents{shape.num_rows, shape.num_heads, width};
  const int64_t row = shape.num_heads * width;
  if (shape.strided) return maker.strided(shape.dtype, {shape.num_rows, row}, row + 48, fill).reshape(extents);
  return fill ? maker.input(shape.dtype, extents, fill) : maker.output(shape.dtype, extents);
}

/// One side of the cache, and the scale of its codes where it has codes.
void make_cache(OperandMaker& maker, const AttentionShape& shape, const Batch& batch, double code_scale, Tensor& cache,
                Tensor& scale) {
  const Shape extents{blocks_of(shape), shape.block_size, shape.num_kv_heads, shape.head_dim};
  const bool coded = shape.cache_dtype == DType::kE4M3;
  cache = maker.input(shape.cache_dtype, extents, cache_fill(shape, batch, coded ? 1.0 / code_scale : 1.0));
  if (coded) scale = maker.input(DType::kF32, {1}, fill::constant(code_scale));
}

GatedAttention make(OperandMaker& maker, const AttentionShape& shape) {
  const Batch batch = draw_batch(shape, maker.seed());
  const Shape table{shape.num_sequences, blocks_per_sequence(shape) + 2};
  const Fill table_fill = case_parts::listed_rows(batch.block_table);
  GatedAttention op;
  op.q = heads(maker, shape, shape.head_dim, fill::normal(shape.query_sigma));
  AttentionShape gates = shape;
  gates.dtype = shape.gate_dtype;
  op.q_gate = heads(maker, gates, 2 * shape.head_dim, fill::normal(2.0));
  make_cache(maker, shape, batch, 0.021, op.k_cache, op.k_scale);
  make_cache(maker, shape, batch, 0.15, op.v_cache, op.v_scale);
  op.block_table =
      shape.strided ? maker.strided(DType::kI32, table, table[1] + 3, table_fill) : maker.input(DType::kI32, table, table_fill);
  op.seq_lens = maker.input(DType::kI32, {shape.num_sequences}, case_parts::listed(batch.seq_lens));
  op.query_start_loc = maker.input(DType::kI32, {shape.num_sequences + 1}, case_parts::listed(batch.query_start_loc));
  op.out = heads(maker, shape, shape.head_dim, {});
  op.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(shape.head_dim)));
  op.max_seq_len = shape.max_seq_len;
  op.precision = shape.precision;
  return op;
}

}  // namespace

std::vector<OpCase<GatedAttention>> GatedAttention::cases() {
  using namespace case_parts;
  constexpr DType kF32Cache = DType::kF32;
  constexpr DType kFp8Cache = DType::kE4M3;
  static constexpr AttentionShape kShapes[] = {
      {.num_sequences = 1, .num_rows = 1, .max_rows = 1, .max_seq_len = 1},
      {.num_sequences = 1, .num_rows = 1, .max_rows = 1, .max_seq_len = 16, .full_length = true},
      {.num_sequences = 1, .num_rows = 1, .max_rows = 1, .max_seq_len = 17, .full_length = true},
      {.num_sequences = 1, .num_rows = 1, .max_rows = 1, .max_seq_len = 700, .full_length = true},
      {.num_sequences = 1, .num_rows = 4, .max_rows = 4, .max_seq_len = 300},
      {.num_sequences = 1, .num_rows = 4, .max_rows = 4, .max_seq_len = 130, .cache_dtype = kF32Cache},
      {.num_sequences = 1, .num_rows = 16, .max_rows = 16, .max_seq_len = 64, .num_heads = 24, .num_kv_heads = 4},
      {.num_sequences = 1, .num_rows = 37, .max_rows = 37, .max_seq_len = 37, .cache_dtype = kF32Cache},
      {.num_sequences = 1, .num_rows = 70, .max_rows = 70, .max_seq_len = 133, .num_heads = 3, .num_kv_heads = 1, .head_dim = 64},
      {.num_sequences = 3, .num_rows = 3, .max_rows = 1, .max_seq_len = 90},
      {.num_sequences = 3, .num_rows = 12, .max_rows = 5, .max_seq_len = 90},
      {.num_sequences = 3, .num_rows = 12, .max_rows = 5, .max_seq_len = 90, .cache_dtype = kF32Cache, .strided = true},
      {.num_sequences = 5, .num_rows = 8, .max_rows = 3, .max_seq_len = 40, .num_heads = 4, .num_kv_heads = 2, .head_dim = 64},
      {.num_sequences = 2,
       .num_rows = 5,
       .max_rows = 3,
       .max_seq_len = 11,
       .num_heads = 2,
       .num_kv_heads = 2,
       .head_dim = 18,
       .block_size = 1},
      {.num_sequences = 2,
       .num_rows = 5,
       .max_rows = 3,
       .max_seq_len = 23,
       .num_heads = 6,
       .num_kv_heads = 2,
       .head_dim = 33,
       .block_size = 5,
       .cache_dtype = kF32Cache},
      {.num_sequences = 1, .num_rows = 3, .max_rows = 3, .max_seq_len = 200, .query_sigma = 6.0},
      {.num_sequences = 3, .num_rows = 12, .max_rows = 5, .max_seq_len = 90, .dtype = DType::kBF16, .gate_dtype = DType::kBF16},
      {.num_sequences = 1, .num_rows = 1, .max_rows = 1, .max_seq_len = 1, .dtype = DType::kBF16},
      {.num_sequences = 1, .num_rows = 1, .max_rows = 1, .max_seq_len = 700, .dtype = DType::kBF16, .full_length = true},
      {.num_sequences = 1,
       .num_rows = 4,
       .max_rows = 4,
       .max_seq_len = 300,
       .num_heads = 24,
       .num_kv_heads = 4,
       .dtype = DType::kBF16,
       .query_sigma = 3.0},
      {.num_sequences = 1,
       .num_rows = 37,
       .max_rows = 37,
       .max_seq_len = 133,
       .num_heads = 3,
       .num_kv_heads = 1,
       .head_dim = 64,
       .dtype = DType::kBF16},
      {.num_sequences = 3, .num_rows = 20, .max_rows = 9, .max_seq_len = 90, .head_dim = 128, .dtype = DType::kBF16},
      {.num_sequences = 1, .num_rows = 1, .max_rows = 1, .max_seq_len = 1, .cache_dtype = kFp8Cache},
      {.num_sequences = 1, .num_rows = 1, .max_rows = 1, .max_seq_len = 700, .cache_dtype = kFp8Cache, .full_length = true},
      {.num_sequences = 1, .num_rows = 4, .max_rows = 4, .max_seq_len = 300, .cache_dtype = kFp8Cache},
      {.num_sequences = 1, .num_rows = 37, .max_rows = 37, .max_seq_len = 37, .cache_dtype = kFp8Cache},
      {.num_sequences = 3, .num_rows = 12, .max_rows = 5, .max_seq_len = 90, .cache_dtype = kFp8Cache, .strided = true},
      {.num_sequences = 2,
       .num_rows = 5,
       .max_rows = 3,
       .max_seq_len = 23,
       .num_heads = 6,
       .num_kv_heads = 2,
       .head_dim = 33,
       .block_size = 5,
       .cache_dtype = kFp8Cache},
      {.num_sequences = 1, .num_rows = 3, .max_rows = 3, .max_seq_len = 200, .cache_dtype = kFp8Cache, .query_sigma = 6.0},
      {.num_sequences = 3, .num_rows = 12, .max_rows = 5, .max_seq_len = 90, .cache_dtype = kFp8Cache, .dtype = DType::kBF16},
      {.num_sequences = 1,
       .num_rows = 70,
       .max_rows = 70,
       .max_seq_len = 200,
       .num_heads = 6,
       .num_kv_heads = 1,
       .precision = LinearPrecision::kBF16},
      {.num_sequences = 3,
       .num_rows = 90,
       .max_rows = 50,
       .max_seq_len = 150,
       .num_heads = 4,
       .cache_dtype = kFp8Cache,
       .precision = LinearPrecision::kBF16},
      {.num_sequences = 1,
       .num_rows = 40,
       .max_rows = 40,
       .max_seq_len = 300,
       .num_heads = 3,
       .num_kv_heads = 1,
       .head_dim = 128,
       .block_size = 5,
       .cache_dtype = kF32Cache,
       .full_length = true,
       .precision = LinearPrecision::kBF16},
      {.num_sequences = 4,
       .num_rows = 64,
       .max_rows = 33,
       .max_seq_len = 65,
       .num_heads = 4,
       .head_dim = 64,
       .strided = true,
       .precision = LinearPrecision::kBF16},
      {.num_sequences = 1,
       .num_rows = 33,
       .max_rows = 33,
       .max_seq_len = 64,
       .num_heads = 2,
       .num_kv_heads = 1,
       .dtype = DType::kBF16,
       .query_sigma = 3.0,
       .precision = LinearPrecision::kBF16},
  };
  std::vector<OpCase<GatedAttention>> list;
  for (const AttentionShape& shape : kShapes) {
    const std::string name = sized("B", shape.num_sequences) + sized("_T", shape.num_rows) + sized("_L", shape.max_seq_len) +
                             sized("_Hq", shape.num_heads) + sized("_Hkv", shape.num_kv_heads) + sized("_D", shape.head_dim) +
                             sized("_block", shape.block_size) + "_cache-" + std::string(to_string(shape.cache_dtype)) +
                             (shape.strided ? "_strided" : "") + (shape.query_sigma > 1.0 ? "_peaked" : "") +
                             (shape.precision == LinearPrecision::kBF16 ? "_prefill" : "") + activation_suffix(shape.dtype);
    list.push_back({.name = name,
                    .make = [shape](OperandMaker& maker) { return make(maker, shape); },
                    .tolerance_override = shape.precision == LinearPrecision::kBF16 ? 1e-2 : 0.0});
  }
  return list;
}

}  // namespace foretoken
