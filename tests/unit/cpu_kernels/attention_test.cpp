// Gated attention: values, and that a row's bits depend on nothing but its own query and keys.
#include <cmath>
#include <numeric>

#include "tests/unit/cpu_kernels/attention_context.h"
#include "tests/unit/cpu_kernels/isa_test.h"

namespace foretoken::cpu {
namespace {

using AttentionTest = IsaTest;
FORETOKEN_ISA_TESTS(AttentionTest);

/// Every row of a call of `rows` rows, against float64 and against the row alone, in several partitions of the items.
void check_rows(Isa isa, const Geometry& geometry, int64_t rows, int64_t context, DType dtype) {
  SCOPED_TRACE(testing::Message() << rows << " rows, context " << context << ", D " << geometry.head_dim << ", "
                                  << to_string(dtype));
  const Context cache(geometry, context, dtype);
  const Floats q = random_floats({rows, geometry.query_heads, geometry.head_dim}, 3, 2.0F);
  const Floats gate = random_floats({rows, geometry.query_heads, 2 * geometry.head_dim}, 4);
  const std::vector<float> out = cache.attend(isa, UINT32_MAX, q, gate, 0, rows, context);
  EXPECT_TRUE(same_bits(cache.attend(isa, 1, q, gate, 0, rows, context), out));
  EXPECT_TRUE(same_bits(cache.attend(isa, 3, q, gate, 0, rows, context), out));
  const auto dim = static_cast<size_t>(geometry.head_dim);
  const auto row_floats = static_cast<size_t>(geometry.query_heads) * dim;
  for (int64_t row = 0; row<rows; row += rows> 40 ? 37 : 1) {
    const std::vector<float> row_out(out.begin() + row * static_cast<int64_t>(row_floats),
                                     out.begin() + (row + 1) * static_cast<int64_t>(row_floats));
    const int64_t length = context - rows + row + 1;
    EXPECT_TRUE(same_bits(cache.attend(isa, UINT32_MAX, q, gate, row, 1, length), row_out)) << "row " << row;
    for (size_t head = 0; head < static_cast<size_t>(geometry.query_heads); ++head) {
      const std::vector<double> expected = cache.reference(q.data() + static_cast<size_t>(row) * row_floats + head * dim,
                                                           gate.data() + (static_cast<size_t>(row) * row_floats + head * dim) * 2,
                                                           head, static_cast<size_t>(length));
      const std::vector<float> got(row_out.begin() + static_cast<int64_t>(head * dim),
                                   row_out.begin() + static_cast<int64_t>((head + 1) * dim));
      EXPECT_LT(relative_error(got, expected), 5e-6) << "row " << row << " head " << head;
    }
  }
}

TEST_P(AttentionTest, RowsHaveTheBitsOfRowsAlone) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kE4M3}) {
    check_rows(GetParam(), {}, 1, 1, dtype);
    check_rows(GetParam(), {}, 4, 4, dtype);
    check_rows(GetParam(), {}, 4, 258, dtype);  // rows on both sides of a split
    check_rows(GetParam(), {}, 16, 700, dtype);
    check_rows(GetParam(), {}, 20, 520, dtype);   // row groups instead of splits
    check_rows(GetParam(), {}, 300, 300, dtype);  // a prompt
  }
}

TEST_P(AttentionTest, OtherGeometries) {
  check_rows(GetParam(), {.query_heads = 8, .key_heads = 1, .head_dim = 256}, 3, 270, DType::kBF16);
  check_rows(GetParam(), {.query_heads = 2, .key_heads = 2, .head_dim = 40, .block_size = 5, .max_seq_len = 600}, 3, 270,
             DType::kF32);
  check_rows(GetParam(), {.query_heads = 3, .key_heads = 1, .head_dim = 8, .block_size = 1, .max_seq_len = 300}, 2, 40,
             DType::kBF16);
  check_rows(GetParam(), {.query_heads = 6, .key_heads = 2, .head_dim = 33, .block_size = 5, .max_seq_len = 600}, 3, 270,
             DType::kE4M3);
}

TEST_P(AttentionTest, TheBucketDoesNotChangeBits) {
  const Context cache({}, 250, DType::kF32);
  const Floats q = random_floats({4, 4, 64}, 5), gate = random_floats({4, 4, 128}, 6);
  EXPECT_TRUE(
      same_bits(cache.attend(GetParam(), 2, q, gate, 0, 4, 250, 256), cache.attend(GetParam(), 2, q, gate, 0, 4, 250, 1024)));
}

TEST_P(AttentionTest, LaterPositionsAreInvisible) {
  for (const DType dtype : {DType::kF32, DType::kE4M3}) {
    const Context cache({}, 300, dtype);
    const Floats q = random_floats({4, 4, 64}, 5), gate = random_floats({4, 4, 128}, 6);
    const std::vector<float> before = cache.attend(GetParam(), 1, q, gate, 0, 4, 300);
    cache.poison(299);
    const std::vector<float> after = cache.attend(GetParam(), 1, q, gate, 0, 4, 300);
    for (size_t i = 0; i < 3 * 256; ++i) EXPECT_EQ(before[i], after[i]) << i;
    for (size_t i = 3 * 256; i < 4 * 256; ++i) EXPECT_TRUE(std::isnan(after[i])) << i;
  }
}

TEST_P(AttentionTest, SequencesInABatchAndPaddingRows) {
  const Geometry geometry;
  const Context cache(geometry, 600, DType::kBF16);
  for (const std::vector<int32_t>& counts : {std::vector<int32_t>{3, 0, 1, 4}, std::vector<int32_t>{20, 1, 0, 17}}) {
    const std::vector<int32_t> lengths = {600, 0, 1, 300};
    std::vector<int32_t> starts = {0};
    for (const int32_t count : counts) starts.push_back(starts.back() + count);
    const int64_t rows = starts.back() + 2;
    const Floats q = random_floats({rows, 4, 64}, 7), gate = random_floats({rows, 4, 128}, 8), out = zeros({rows, 4, 64});
    out.fill(-3.0F);
    const Ints table(DType::kI32, {4, 64});
    for (size_t b = 0; b < 4; ++b) std::copy_n(cache.table().data(), 64, table.data() + b * 64);
    DirectList(GetParam(), 2)
        .run(GatedAttention{.q = q,
                            .q_gate = gate,
                            .k_cache = cache.k_cache(),
                            .v_cache = cache.v_cache(),
                            .block_table = table,
                            .seq_lens = ints(lengths),
                            .query_start_loc = ints(starts),
                            .out = out,
                            .workspace = {},
                            .scale = cache.scale(),
                            .max_seq_len = 1024});
    for (size_t b = 0; b < 4; ++b) {
      if (counts[b] == 0) continue;
      const std::vector<float> alone = cache.attend(GetParam(), 1, q, gate, starts[b], counts[b], lengths[b]);
      for (size_t i = 0; i < alone.size(); ++i) EXPECT_EQ(out.data()[static_cast<size_t>(starts[b]) * 256 + i], alone[i]);
    }
    for (size_t i = static_cast<size_t>(starts.back()) * 256; i < out.size(); ++i) EXPECT_EQ(out.data()[i], -3.0F);
  }
}

/// One position: its softmax weight is 1, so the output is the value times the gate. All codes, NaN included.
TEST_P(AttentionTest, DecodesEveryFp8Code) {
  const Codes k_cache(DType::kE4M3, {1, 1, 1, 256}), v_cache(DType::kE4M3, {1, 1, 1, 256});
  std::iota(v_cache.data(), v_cache.data() + 256, uint8_t{0});
  const Floats scale(DType::kF32, {1}, {0.37F}), q = zeros({1, 1, 256}), gate = zeros({1, 1, 512}), out = zeros({1, 1, 256});
  gate.fill(100.0F);  // sigmoid 1
  const Ints table(DType::kI32, {1, 1});
  DirectList(GetParam())
      .run(GatedAttention{.q = q,
                          .q_gate = gate,
                          .k_cache = k_cache,
                          .v_cache = v_cache,
                          .k_scale = scale,
                          .v_scale = scale,
                          .block_table = table,
                          .seq_lens = ints({1}),
                          .query_start_loc = ints({0, 1}),
                          .out = out,
                          .workspace = {},
                          .scale = 1.0F,
                          .max_seq_len = 1});
  for (size_t code = 0; code < 256; ++code) {
    const float expected = e4m3_to_float(static_cast<uint8_t>(code)) * 0.37F;
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(out.data()[code])) << code;
    } else {
      EXPECT_EQ(out.data()[code], expected) << code;
    }
  }
}

TEST_P(AttentionTest, RefusesASmallWorkspace) {
  const Context cache({}, 300, DType::kF32);
  const Floats q = random_floats({1, 4, 64}, 5), gate = random_floats({1, 4, 128}, 6), out = zeros({1, 4, 64});
  const Owned<uint8_t> workspace(DType::kU8, {16});
  DirectList list(GetParam());
  const GatedAttention op{.q = q,
                          .q_gate = gate,
                          .k_cache = cache.k_cache(),
                          .v_cache = cache.v_cache(),
                          .block_table = cache.table(),
                          .seq_lens = ints({300}),
                          .query_start_loc = ints({0, 1}),
                          .out = out,
                          .workspace = workspace,
                          .scale = 1.0F,
                          .max_seq_len = 1024};
  EXPECT_THROW(ops::dispatch(list, op), Error);
}

}  // namespace
}  // namespace foretoken::cpu
