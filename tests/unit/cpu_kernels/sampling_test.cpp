// Argmax, acceptance, overrides, embedding rows and random weights.
#include <cmath>

#include "tests/unit/cpu_kernels/isa_test.h"

namespace foretoken::cpu {
namespace {

using SamplingTest = IsaTest;
FORETOKEN_ISA_TESTS(SamplingTest);

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

int32_t argmax_of(Isa isa, const std::vector<float>& row) {
  const Floats logits(DType::kF32, {1, static_cast<int64_t>(row.size())}, row);
  const Ints id = ints({-5});
  DirectList(isa).run(Argmax{.logits = logits, .token_ids = id});
  return id.data()[0];
}

TEST_P(SamplingTest, ArgmaxTakesTheLowestIdAndNeverNaN) {
  EXPECT_EQ(argmax_of(GetParam(), {1, 3, 3, 2}), 1);
  EXPECT_EQ(argmax_of(GetParam(), {kNaN, -kInf}), 1);
  EXPECT_EQ(argmax_of(GetParam(), {kNaN, kNaN, kNaN}), 0);
  EXPECT_EQ(argmax_of(GetParam(), {kNaN, 1, kNaN, kInf, kInf}), 3);
  EXPECT_EQ(argmax_of(GetParam(), {-0.0F, 0.0F}), 0);
  EXPECT_EQ(argmax_of(GetParam(), std::vector<float>(3000, kNaN)), 0);
  std::mt19937 generator(3);
  for (const size_t n : {1, 63, 64, 1024, 1025, 4096, 5000}) {
    for (int repeat = 0; repeat < 20; ++repeat) {
      std::vector<float> row(n);
      for (float& value : row) value = static_cast<float>(generator() % 50);
      if (repeat % 2 == 1) row[generator() % n] = kNaN;
      size_t best = n;
      for (size_t i = 0; i < n; ++i) {
        if (!std::isnan(row[i]) && (best == n || row[i] > row[best])) best = i;
      }
      EXPECT_EQ(argmax_of(GetParam(), row), best == n ? 0 : static_cast<int32_t>(best));
    }
  }
}

TEST_P(SamplingTest, AcceptsTheLeadingAgreement) {
  // Four sequences of three rows, one of one row, one without any, and padding.
  const Ints fed = ints({7, 1, 2, 7, 1, 9, 7, 9, 2, 7, 1, 2, 7, 3}), targets = ints({1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 0, 5, 3});
  const Ints starts = ints({0, 3, 6, 9, 12, 13, 13}), accepted = ints({-1, -1, -1, -1, -1, -1});
  DirectList(GetParam(), 1)
      .run(AcceptDrafts{.token_ids = fed, .target_token_ids = targets, .query_start_loc = starts, .num_accepted = accepted});
  EXPECT_EQ(accepted.values(), (std::vector<int32_t>{2, 1, 0, 2, 0, 0}));
}

TEST_P(SamplingTest, SelectsTheHostsTokenWhereItHasOne) {
  const Ints host = ints({-1, 0, 7, -1, -1}), source = ints({4, 5, 6}), rows = ints({2, 1, 0, 3, -1});
  const Ints tokens = ints({0, 0, 0, 0, 0});
  DirectList(GetParam()).run(SelectTokens{.host_token_ids = host, .source = source, .source_rows = rows, .token_ids = tokens});
  EXPECT_EQ(tokens.values(), (std::vector<int32_t>{6, 0, 7, -1, -1}));
}

TEST_P(SamplingTest, EmbeddingCopiesRowsAndMarksBadIds) {
  const Floats table = random_floats({5, 21}, 1);
  const Halves half_table(DType::kBF16, {5, 21});
  for (size_t i = 0; i < table.size(); ++i) half_table.data()[i] = float_to_bf16(table.data()[i]);
  const Ints ids = ints({4, 0, -1, 5});
  const Floats out = zeros({4, 21}), from_half = zeros({4, 21});
  DirectList(GetParam(), 1).run(Embedding{.ids = ids, .table = table, .out = out});
  DirectList(GetParam()).run(Embedding{.ids = ids, .table = half_table, .out = from_half});
  for (size_t i = 0; i < 21; ++i) {
    EXPECT_EQ(out.row(0)[i], table.row(4)[i]);
    EXPECT_EQ(out.row(1)[i], table.row(0)[i]);
    EXPECT_EQ(from_half.row(0)[i], bf16_to_float(half_table.row(4)[i]));
    for (const size_t bad : {2, 3}) EXPECT_TRUE(std::isnan(out.row(bad)[i]) && std::isnan(from_half.row(bad)[i]));
  }
}

TEST_P(SamplingTest, RandomWeightsAreTheHashInBothDtypes) {
  constexpr int64_t kCount = 10007;
  const Floats out = zeros({kCount});
  const Halves half(DType::kBF16, {kCount});
  DirectList(GetParam(), 1).run(RandomFill{.out = out, .seed = 9, .tensor_id = 4, .exponent = -11, .offset = 1.0F});
  DirectList(GetParam()).run(RandomFill{.out = half, .seed = 9, .tensor_id = 4, .exponent = -11, .offset = 0.0F});
  for (size_t i = 0; i < kCount; ++i) {
    const double value = std::ldexp(random_weight_integer(9, 4, i), -11);
    ASSERT_EQ(out.data()[i], static_cast<float>(value + 1.0)) << i;
    ASSERT_EQ(bf16_to_float(half.data()[i]), static_cast<float>(value)) << i;
  }
}

}  // namespace
}  // namespace foretoken::cpu
