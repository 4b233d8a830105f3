// Linear layers on tiles, with tiles in software: values agree with float64, and row r of many rows has the bits of row r alone,
// whatever the cut.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "backends/cpu/kernels/linear_params.h"
#include "tests/unit/cpu_linear/kernels.h"
#include "tests/unit/cpu_linear/weights.h"

namespace foretoken::cpu::emulated {
void add_amx_linear_kernels(std::vector<KernelEntry>& list);
}  // namespace foretoken::cpu::emulated

namespace foretoken::cpu {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

struct Cut {
  uint32_t row_tile, column_tile, pieces;
};

template <class Params>
void run_on_tiles(const std::string& name, const Params& params, uint32_t items, uint32_t pieces) {
  std::vector<KernelEntry> list;
  emulated::add_amx_linear_kernels(list);
  const auto entry = std::ranges::find(list, std::string_view(name), &KernelEntry::name);
  ASSERT_NE(entry, list.end()) << name;
  ASSERT_EQ(entry->params_bytes, sizeof(Params));
  for (uint32_t piece = pieces; piece > 0; --piece) {
    entry->function(&params, items * (piece - 1) / pieces, items * piece / pieces);
  }
}

struct Problem {
  size_t k, n;
  std::vector<float> x;
  TestWeight w, up;

  Problem(size_t rows, size_t in_features, size_t out_features)
      : k(in_features),
        n(out_features),
        x(random_floats(rows * in_features, 1)),
        w({WeightFormat::kBF16}, 1, out_features, in_features, 2),
        up({WeightFormat::kBF16}, 1, out_features, in_features, 3) {}

  /// Rows [first, first + rows).
  [[nodiscard]] std::vector<float> linear(size_t first, size_t rows, const Cut& cut) const {
    std::vector<float> out(rows * n, kNan);
    const LinearParams params{.x = address_of(x) + first * k * sizeof(float),
                              .weight = w.params(),
                              .out = address_of(out),
                              .x_stride = k,
                              .out_stride = n,
                              .num_rows = static_cast<uint32_t>(rows),
                              .in_features = static_cast<uint32_t>(k),
                              .out_features = static_cast<uint32_t>(n),
                              .row_tile = cut.row_tile,
                              .column_tile = cut.column_tile,
                              .reserved = 0};
    run_on_tiles(w.kernel("linear_tiles"), params, items(rows, cut), cut.pieces);
    return out;
  }
  [[nodiscard]] std::vector<float> silu_mul(size_t first, size_t rows, const Cut& cut) const {
    std::vector<float> out(rows * n, kNan);
    const LinearSiluMulParams params{.x = address_of(x) + first * k * sizeof(float),
                                     .gate = w.params(),
                                     .up = up.params(),
                                     .out = address_of(out),
                                     .x_stride = k,
                                     .out_stride = n,
                                     .num_rows = static_cast<uint32_t>(rows),
                                     .in_features = static_cast<uint32_t>(k),
                                     .out_features = static_cast<uint32_t>(n),
                                     .row_tile = cut.row_tile,
                                     .column_tile = cut.column_tile,
                                     .reserved = 0};
    run_on_tiles(w.kernel("linear_silu_mul_tiles"), params, items(rows, cut), cut.pieces);
    return out;
  }

 private:
  [[nodiscard]] uint32_t items(size_t rows, const Cut& cut) const {
    return static_cast<uint32_t>((rows + cut.row_tile - 1) / cut.row_tile * ((n + cut.column_tile - 1) / cut.column_tile));
  }
};

bool same_bits(const std::vector<float>& part, const std::vector<float>& whole, size_t first_element) {
  return std::memcmp(part.data(), whole.data() + first_element, part.size() * sizeof(float)) == 0;
}

class LinearTiles : public testing::TestWithParam<size_t> {
 protected:
  void SetUp() override {
    if (best_isa() < Isa::kAvx512) GTEST_SKIP() << "this machine lacks AVX-512";
  }
};

TEST_P(LinearTiles, RowsDoNotDependOnTheirCompany) {
  constexpr size_t kRows = 21;
  const Problem problem(kRows, GetParam(), 117);
  std::vector<float> alone, alone_silu;
  for (size_t row = 0; row < kRows; ++row) {
    const std::vector<float> one = problem.linear(row, 1, {.row_tile = 1, .column_tile = 16, .pieces = 1});
    const std::vector<float> silu = problem.silu_mul(row, 1, {.row_tile = 1, .column_tile = 64, .pieces = 1});
    alone.insert(alone.end(), one.begin(), one.end());
    alone_silu.insert(alone_silu.end(), silu.begin(), silu.end());
  }
  for (size_t rows = 2; rows <= 17; ++rows) {
    const size_t first = rows % 5;
    const Cut cut{.row_tile = static_cast<uint32_t>(rows), .column_tile = rows % 2 == 0 ? 64U : 32U, .pieces = 2};
    EXPECT_TRUE(same_bits(problem.linear(first, rows, cut), alone, first * problem.n)) << rows << " rows";
    EXPECT_TRUE(same_bits(problem.silu_mul(first, rows, cut), alone_silu, first * problem.n)) << rows << " rows";
  }
  EXPECT_TRUE(same_bits(problem.linear(0, kRows, {.row_tile = 8, .column_tile = 48, .pieces = 3}), alone, 0));
}

TEST_P(LinearTiles, AgreesWithFloat64) {
  const size_t k = GetParam();
  constexpr size_t kRows = 7;
  for (const size_t n : {9U, 70U}) {
    const Problem problem(kRows, k, n);
    const std::vector<float> out = problem.linear(0, kRows, {.row_tile = kRows, .column_tile = 64, .pieces = 1});
    for (size_t row = 0; row < kRows; ++row) {
      double largest = 0.0, error = 0.0;
      for (size_t c = 0; c < n; ++c) {
        const double expected = problem.w.dot(problem.x.data() + row * k, c);
        largest = std::max(largest, std::abs(expected));
        error = std::max(error, std::abs(static_cast<double>(out[row * n + c]) - expected));
      }
      EXPECT_LE(error, 2e-6 * largest);
    }
  }
}

TEST_P(LinearTiles, InfinitiesAndNanComeOutAsFloat64HasThem) {
  const size_t k = GetParam();
  constexpr size_t kRows = 6;
  Problem problem(kRows, k, 37);
  problem.x[3] = kNan;
  problem.x[k + 1] = kInf;
  problem.x[2 * k + 4] = -kInf;
  problem.x[3 * k + 2] = 1e30F;
  problem.x[4 * k + 2] = 1e-42F;
  problem.x[5 * k] = -kInf;
  const std::vector<float> out = problem.linear(0, kRows, {.row_tile = kRows, .column_tile = 32, .pieces = 1});
  for (size_t row = 0; row < kRows; ++row) {
    for (size_t n = 0; n < problem.n; ++n) {
      const double expected = problem.w.dot(problem.x.data() + row * k, n);
      const float got = out[row * problem.n + n];
      EXPECT_EQ(std::isnan(got), std::isnan(expected)) << row << ", " << n;
      EXPECT_EQ(std::isinf(got), std::isinf(expected)) << row << ", " << n;
      if (std::isinf(expected)) {
        EXPECT_EQ(std::signbit(got), std::signbit(expected)) << row << ", " << n;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Columns, LinearTiles, testing::Values<size_t>(5, 64, 96, 192, 1000, 1003, 2576),
                         [](const auto& test) { return "k" + std::to_string(test.param); });

}  // namespace
}  // namespace foretoken::cpu
