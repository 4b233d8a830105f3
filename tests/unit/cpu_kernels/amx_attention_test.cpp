// Attention of prefill with tiles in software, against float64.
#include <cmath>

#include "tests/unit/cpu_kernels/attention_context.h"
#include "tests/unit/cpu_kernels/isa_test.h"

namespace foretoken::cpu::emulated {
void add_amx_attention_kernels(std::vector<KernelEntry>& list);
}  // namespace foretoken::cpu::emulated

namespace foretoken::cpu {
namespace {

class AmxAttentionTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!runs_here(Isa::kAvx512)) GTEST_SKIP() << "this machine lacks AVX-512";
  }
};

DirectList emulated_list(uint32_t range = UINT32_MAX) {
  std::vector<KernelEntry> first;
  emulated::add_amx_attention_kernels(first);
  return DirectList(Isa::kAvx512, range, first);
}

std::string chosen(const DirectList& list, const GatedAttention& op) { return list.ops().choose("gated_attention", &op).name; }

/// Rows [first, first + count) as the last positions of a sequence of `seq_len`, on tiles.
std::vector<float> attend(const Context& cache, const Floats& q, const Floats& gate, int64_t first, int64_t count,
                          int64_t seq_len, uint32_t range = UINT32_MAX) {
  DirectList list = emulated_list(range);
  const Floats out = zeros({count, cache.geometry().query_heads, cache.geometry().head_dim});
  out.fill(kNaN);
  const Ints length = ints({static_cast<int32_t>(seq_len)}), starts = ints({0, static_cast<int32_t>(count)});
  GatedAttention op = cache.rows(q, gate, first, count, length, starts, out);
  op.precision = LinearPrecision::kBF16;
  EXPECT_EQ(chosen(list, op), "amx");
  list.run(op);
  return out.values();
}

struct Queries {
  Floats q, gate;

  Queries(const Geometry& geometry, int64_t rows)
      : q(random_floats({rows, geometry.query_heads, geometry.head_dim}, 3, 2.0F)),
        gate(random_floats({rows, geometry.query_heads, 2 * geometry.head_dim}, 4)) {}
};

/// Every seventh row of `rows`, against float64 with queries, keys and values as they are rounded: what is left are rounded
/// shares. Memory past the sequence is poisoned.
void check_rows(const Geometry& geometry, int64_t rows, int64_t context, DType dtype) {
  SCOPED_TRACE(testing::Message() << rows << " rows, context " << context << ", heads " << geometry.query_heads << "/"
                                  << geometry.key_heads << ", D " << geometry.head_dim << ", block " << geometry.block_size
                                  << ", " << to_string(dtype));
  const Context cache(geometry, context + 1, dtype);
  cache.poison(static_cast<size_t>(context));
  const Context rounded_cache(geometry, context + 1, dtype == DType::kF32 ? DType::kBF16 : dtype);
  const Queries queries(geometry, rows);
  const std::vector<float> out = attend(cache, queries.q, queries.gate, 0, rows, context);
  EXPECT_TRUE(same_bits(attend(cache, queries.q, queries.gate, 0, rows, context, 1), out));
  const auto dim = static_cast<size_t>(geometry.head_dim), heads = static_cast<size_t>(geometry.query_heads);
  std::vector<float> rounded = queries.q.values();
  for (float& value : rounded) value = bf16_to_float(float_to_bf16(value));
  for (size_t row = 0; row < static_cast<size_t>(rows); row += 7) {
    for (size_t head = 0; head < heads; ++head) {
      const size_t at = (row * heads + head) * dim;
      const size_t length = static_cast<size_t>(context - rows) + row + 1;
      const std::vector<double> expected =
          rounded_cache.reference(rounded.data() + at, queries.gate.data() + 2 * at, head, length);
      const std::vector<float> got(out.begin() + static_cast<int64_t>(at), out.begin() + static_cast<int64_t>(at + dim));
      EXPECT_LT(relative_error(got, expected), 4e-3) << "row " << row << " head " << head;
    }
  }
}

TEST_F(AmxAttentionTest, AgreesWithFloat64) {
  for (const DType dtype : {DType::kBF16, DType::kE4M3, DType::kF32}) {
    check_rows({.query_heads = 4, .key_heads = 2, .head_dim = 64}, 33, 33, dtype);
    check_rows({.query_heads = 8, .key_heads = 2, .head_dim = 256}, 70, 300, dtype);  // a later chunk
    check_rows({.query_heads = 3, .key_heads = 1, .head_dim = 128, .block_size = 8}, 100, 129, dtype);
  }
  check_rows({.query_heads = 24, .key_heads = 1, .head_dim = 96, .block_size = 32}, 17, 150, DType::kBF16);
  check_rows({.query_heads = 2, .key_heads = 2, .head_dim = 32, .block_size = 5, .max_seq_len = 600}, 300, 511, DType::kE4M3);
  check_rows({.query_heads = 128, .key_heads = 1, .head_dim = 32, .block_size = 1, .max_seq_len = 300}, 20, 40, DType::kBF16);
}

TEST_F(AmxAttentionTest, ARowsBitsDependOnItsLengthOnly) {
  const Geometry geometry{.query_heads = 6, .key_heads = 2, .head_dim = 64};
  const Context cache(geometry, 300, DType::kBF16);
  const Queries queries(geometry, 300);
  const std::vector<float> whole = attend(cache, queries.q, queries.gate, 0, 300, 300);
  std::vector<float> chunks;
  for (int64_t first = 0; first < 300;) {
    const int64_t count = first == 0 ? 19 : first < 200 ? 117 : 300 - first;
    const std::vector<float> chunk = attend(cache, queries.q, queries.gate, first, count, first + count);
    chunks.insert(chunks.end(), chunk.begin(), chunk.end());
    first += count;
  }
  EXPECT_TRUE(same_bits(chunks, whole));
}

TEST_F(AmxAttentionTest, SequencesInABatchAndPaddingRows) {
  const Geometry geometry;
  const Context cache(geometry, 300, DType::kE4M3);
  const std::vector<int32_t> starts = {0, 40, 40, 57, 137}, lengths = {290, 0, 17, 200};
  const Queries queries(geometry, starts.back() + 2);
  const Floats out = zeros(queries.q.tensor().shape());
  out.fill(-3.0F);
  const int64_t blocks = cache.table().tensor().dim(1);
  const Ints tables(DType::kI32, {4, blocks}), start_loc = ints(starts), seq_lens = ints(lengths);
  for (int64_t b = 0; b < 4; ++b) std::copy_n(cache.table().data(), blocks, tables.data() + b * blocks);
  GatedAttention op = cache.rows(queries.q, queries.gate, 0, starts.back() + 2, seq_lens, start_loc, out);
  op.block_table = tables;
  op.precision = LinearPrecision::kBF16;
  emulated_list(2).run(op);
  const size_t row_floats = static_cast<size_t>(geometry.query_heads * geometry.head_dim);
  for (size_t b = 0; b < 4; ++b) {
    const int32_t count = starts[b + 1] - starts[b];
    if (count == 0) continue;
    const std::vector<float> alone = attend(cache, queries.q, queries.gate, starts[b], count, lengths[b]);
    const float* rows = out.data() + static_cast<size_t>(starts[b]) * row_floats;
    EXPECT_TRUE(same_bits({rows, rows + alone.size()}, alone)) << "sequence " << b;
  }
  for (size_t i = static_cast<size_t>(starts.back()) * row_floats; i < out.size(); ++i) EXPECT_EQ(out.data()[i], -3.0F);
}

TEST_F(AmxAttentionTest, NaNStaysInItsRowAndHead) {
  const Geometry geometry;
  const Context cache(geometry, 150, DType::kBF16);
  const Queries queries(geometry, 40);
  const std::vector<float> before = attend(cache, queries.q, queries.gate, 0, 40, 150);
  constexpr size_t kPoisoned = 21;  // pair of row and head
  const auto dim = static_cast<size_t>(geometry.head_dim);
  queries.q.data()[kPoisoned * dim + 5] = kNaN;
  const std::vector<float> after = attend(cache, queries.q, queries.gate, 0, 40, 150);
  for (size_t i = 0; i < after.size(); ++i) {
    if (i / dim == kPoisoned) {
      EXPECT_TRUE(std::isnan(after[i])) << i;
    } else {
      EXPECT_EQ(after[i], before[i]) << i;
    }
  }
}

TEST_F(AmxAttentionTest, LeavesTheRestToTheExactKernel) {
  const auto choice = [](const Geometry& geometry, int64_t rows, LinearPrecision precision) {
    const Context cache(geometry, 64, DType::kBF16);
    const Queries queries(geometry, rows);
    const Ints length = ints({64}), starts = ints({0, static_cast<int32_t>(rows)});
    GatedAttention op = cache.rows(queries.q, queries.gate, 0, rows, length, starts, queries.q);
    op.precision = precision;
    return chosen(emulated_list(), op);
  };
  EXPECT_EQ(choice({}, 17, LinearPrecision::kBF16), "amx");
  EXPECT_EQ(choice({}, 17, LinearPrecision::kExact), "cpu");
  EXPECT_EQ(choice({}, 16, LinearPrecision::kBF16), "cpu");
  EXPECT_EQ(choice({.head_dim = 40}, 17, LinearPrecision::kBF16), "cpu");
  EXPECT_EQ(choice({.head_dim = 288}, 17, LinearPrecision::kBF16), "cpu");
  EXPECT_EQ(choice({.query_heads = 129, .key_heads = 1, .head_dim = 32}, 17, LinearPrecision::kBF16), "cpu");
}

}  // namespace
}  // namespace foretoken::cpu
