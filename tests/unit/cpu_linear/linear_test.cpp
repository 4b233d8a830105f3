// Row r of many rows has the bits of row r alone, whatever the tiles and the ranges; values agree with float64.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "backends/cpu/kernels/linear_params.h"
#include "tests/unit/cpu_linear/kernels.h"
#include "tests/unit/cpu_linear/weights.h"

namespace foretoken::cpu {
namespace {

constexpr size_t kMaxRows = 67;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

struct Problem {
  size_t k, n;
  std::vector<float> x;
  TestWeight w, up;

  Problem(const TestFormat& format, size_t in_features, size_t out_features)
      : k(in_features),
        n(out_features),
        x(random_floats(kMaxRows * in_features, 1)),
        w(format, 1, out_features, in_features, 2),
        up(format, 1, out_features, in_features, 3) {}

  [[nodiscard]] double dot(size_t row, const TestWeight& weight, size_t column) const {
    return weight.dot(x.data() + row * k, column);
  }
};

struct Cut {
  uint32_t row_tile, column_tile, pieces;
};

uint32_t items(size_t rows, size_t columns, const Cut& cut) {
  return static_cast<uint32_t>((rows + cut.row_tile - 1) / cut.row_tile * ((columns + cut.column_tile - 1) / cut.column_tile));
}

/// Rows [first, first + rows) of the problem.
std::vector<float> run_linear(Isa isa, const Problem& problem, size_t first, size_t rows, const Cut& cut) {
  std::vector<float> out(rows * problem.n, kNan);
  const LinearParams params{.x = address_of(problem.x) + first * problem.k * sizeof(float),
                            .weight = problem.w.params(),
                            .out = address_of(out),
                            .x_stride = problem.k,
                            .out_stride = problem.n,
                            .num_rows = static_cast<uint32_t>(rows),
                            .in_features = static_cast<uint32_t>(problem.k),
                            .out_features = static_cast<uint32_t>(problem.n),
                            .row_tile = cut.row_tile,
                            .column_tile = cut.column_tile,
                            .reserved = 0};
  run_kernel(isa, problem.w.kernel("linear"), params, items(rows, problem.n, cut), cut.pieces);
  return out;
}

std::vector<float> run_silu_mul(Isa isa, const Problem& problem, size_t first, size_t rows, const Cut& cut) {
  std::vector<float> out(rows * problem.n, kNan);
  const LinearSiluMulParams params{.x = address_of(problem.x) + first * problem.k * sizeof(float),
                                   .gate = problem.w.params(),
                                   .up = problem.up.params(),
                                   .out = address_of(out),
                                   .x_stride = problem.k,
                                   .out_stride = problem.n,
                                   .num_rows = static_cast<uint32_t>(rows),
                                   .in_features = static_cast<uint32_t>(problem.k),
                                   .out_features = static_cast<uint32_t>(problem.n),
                                   .row_tile = cut.row_tile,
                                   .column_tile = cut.column_tile,
                                   .reserved = 0};
  run_kernel(isa, problem.w.kernel("linear_silu_mul"), params, items(rows, problem.n, cut), cut.pieces);
  return out;
}

/// Whether `part` has the bits of rows [first, ...) of `whole`.
bool same_bits(const std::vector<float>& part, const std::vector<float>& whole, size_t first_element) {
  return std::memcmp(part.data(), whole.data() + first_element, part.size() * sizeof(float)) == 0;
}

class CpuLinear : public testing::TestWithParam<std::tuple<Isa, size_t>> {};

TEST_P(CpuLinear, RowsDoNotDependOnTheirCompany) {
  const auto [isa, k] = GetParam();
  for (const TestFormat& format : formats_of(isa, k)) {
    SCOPED_TRACE(format.kernel_suffix());
    const Problem problem(format, k, 45);
    std::vector<float> alone;
    std::vector<float> alone_silu;
    for (size_t row = 0; row < kMaxRows; ++row) {
      const Cut cut{.row_tile = 1, .column_tile = 8, .pieces = 1};
      const std::vector<float> one = run_linear(isa, problem, row, 1, cut);
      const std::vector<float> silu = run_silu_mul(isa, problem, row, 1, cut);
      alone.insert(alone.end(), one.begin(), one.end());
      alone_silu.insert(alone_silu.end(), silu.begin(), silu.end());
    }
    for (size_t rows = 1; rows <= 33; ++rows) {
      const size_t first = rows % 7;
      const Cut cut{.row_tile = static_cast<uint32_t>(rows), .column_tile = 16, .pieces = 3};
      EXPECT_TRUE(same_bits(run_linear(isa, problem, first, rows, cut), alone, first * problem.n)) << rows << " rows";
      EXPECT_TRUE(same_bits(run_silu_mul(isa, problem, first, rows, cut), alone_silu, first * problem.n)) << rows << " rows";
    }
    const Cut prefill{.row_tile = 48, .column_tile = 64, .pieces = 2};
    EXPECT_TRUE(same_bits(run_linear(isa, problem, 0, kMaxRows, prefill), alone, 0));
    EXPECT_TRUE(same_bits(run_silu_mul(isa, problem, 0, kMaxRows, prefill), alone_silu, 0));
  }
}

TEST_P(CpuLinear, AgreesWithFloat64) {
  const auto [isa, k] = GetParam();
  const size_t rows = 5;
  const Cut cut{.row_tile = 5, .column_tile = 16, .pieces = 1};
  for (const TestFormat& format : formats_of(isa, k)) {
    SCOPED_TRACE(format.kernel_suffix());
    const Problem problem(format, k, 37);
    const std::vector<float> out = run_linear(isa, problem, 0, rows, cut);
    const std::vector<float> silu = run_silu_mul(isa, problem, 0, rows, cut);
    for (size_t row = 0; row < rows; ++row) {
      double largest = 0.0, largest_silu = 0.0, error = 0.0, error_silu = 0.0;
      for (size_t n = 0; n < problem.n; ++n) {
        const double gate = problem.dot(row, problem.w, n);
        const double expected = gate / (1.0 + std::exp(-gate)) * problem.dot(row, problem.up, n);
        largest = std::max(largest, std::abs(gate));
        largest_silu = std::max(largest_silu, std::abs(expected));
        error = std::max(error, std::abs(static_cast<double>(out[row * problem.n + n]) - gate));
        error_silu = std::max(error_silu, std::abs(static_cast<double>(silu[row * problem.n + n]) - expected));
      }
      EXPECT_LE(error, 2e-6 * largest);
      EXPECT_LE(error_silu, 4e-6 * largest_silu);
    }
  }
}

TEST_P(CpuLinear, InfinitiesAndNanComeOutAsFloat64HasThem) {
  const auto [isa, k] = GetParam();
  for (const TestFormat& format : formats_of(isa, k)) {
    SCOPED_TRACE(format.kernel_suffix());
    Problem problem(format, k, 37);
    problem.x[3] = kNan;
    problem.x[k + 1] = kInf;
    problem.x[2 * k + 4] = -kInf;
    problem.x[3 * k + 2] = 1e30F;
    problem.x[4 * k + 2] = 1e-42F;
    const std::vector<float> out = run_linear(isa, problem, 0, 5, {.row_tile = 5, .column_tile = 16, .pieces = 1});
    for (size_t row = 0; row < 5; ++row) {
      for (size_t n = 0; n < problem.n; ++n) {
        const double expected = problem.dot(row, problem.w, n);
        const float got = out[row * problem.n + n];
        EXPECT_EQ(std::isnan(got), std::isnan(expected)) << row << ", " << n;
        EXPECT_EQ(std::isinf(got), std::isinf(expected)) << row << ", " << n;
        if (std::isinf(expected)) {
          EXPECT_EQ(std::signbit(got), std::signbit(expected)) << row << ", " << n;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isas, CpuLinear,
                         testing::Combine(testing::ValuesIn(isas_of_this_machine()),
                                          testing::Values<size_t>(5, 64, 96, 192, 512, 1000, 1003, 2576)),
                         [](const auto& test) {
                           return isa_name(std::get<0>(test.param)) + "_k" + std::to_string(std::get<1>(test.param));
                         });

struct ArgmaxResult {
  std::vector<int32_t> ids;
  std::vector<float> logprobs;
};

/// The weight [n, k] and its kernel: of a TestWeight or of plain float32.
struct ArgmaxWeight {
  WeightParams params;
  std::string kernel;

  explicit ArgmaxWeight(const TestWeight& weight) : params(weight.params()), kernel(weight.kernel("linear_argmax")) {}
  explicit ArgmaxWeight(const std::vector<float>& weight) : params(), kernel("linear_argmax_f32") {
    params.codes = address_of(weight);
  }
};

ArgmaxResult run_argmax(Isa isa, const std::vector<float>& x, const ArgmaxWeight& w, size_t rows, size_t k, size_t n,
                        bool want_logprobs = true) {
  const size_t tiles = (n + kArgmaxTileColumns - 1) / kArgmaxTileColumns;
  std::vector<float> tile_max(rows * tiles, kNan), tile_sum(rows * tiles, kNan);
  std::vector<int32_t> tile_id(rows * tiles, -7);
  ArgmaxResult result{.ids = std::vector<int32_t>(rows, -9), .logprobs = std::vector<float>(rows, kNan)};
  const LinearArgmaxParams params{.x = address_of(x),
                                  .weight = w.params,
                                  .tile_max = address_of(tile_max),
                                  .tile_id = address_of(tile_id),
                                  .tile_sum = want_logprobs ? address_of(tile_sum) : 0,
                                  .x_stride = k,
                                  .num_rows = static_cast<uint32_t>(rows),
                                  .in_features = static_cast<uint32_t>(k),
                                  .out_features = static_cast<uint32_t>(n),
                                  .row_tile = static_cast<uint32_t>(rows),
                                  .column_tile = kArgmaxTileColumns,
                                  .reserved = 0};
  run_kernel(isa, w.kernel, params, static_cast<uint32_t>(tiles), 2);
  const LinearArgmaxCombineParams combine{.tile_max = params.tile_max,
                                          .tile_id = params.tile_id,
                                          .tile_sum = params.tile_sum,
                                          .token_map = 0,
                                          .token_ids = address_of(result.ids),
                                          .logprobs = want_logprobs ? address_of(result.logprobs) : 0,
                                          .num_tiles = static_cast<uint32_t>(tiles),
                                          .reserved = 0};
  run_kernel(isa, "linear_argmax_combine", combine, static_cast<uint32_t>(rows));
  return result;
}

class CpuLinearArgmax : public testing::TestWithParam<Isa> {};

TEST_P(CpuLinearArgmax, IsTheFirstLargestOfTheLogitsOfLinear) {
  const size_t k = 96, n = 2501, rows = 13;
  for (const TestFormat& format : formats_of(GetParam(), k)) {
    SCOPED_TRACE(format.kernel_suffix());
    Problem problem(format, k, n);
    problem.w.repeat_rows(64);  // so the largest logit of a row appears many times, where no scales tell them apart
    const ArgmaxWeight weight(problem.w);
    const std::vector<float> logits = run_linear(GetParam(), problem, 0, rows, {.row_tile = 13, .column_tile = 16, .pieces = 1});
    const ArgmaxResult result = run_argmax(GetParam(), problem.x, weight, rows, k, n);
    for (size_t row = 0; row < rows; ++row) {
      const auto begin = logits.begin() + static_cast<ptrdiff_t>(row * n);
      const auto best = std::max_element(begin, begin + static_cast<ptrdiff_t>(n));
      EXPECT_EQ(result.ids[row], best - begin);
      double sum = 0.0;
      for (size_t c = 0; c < n; ++c)
        sum += std::exp(static_cast<double>(begin[static_cast<ptrdiff_t>(c)]) - static_cast<double>(*best));
      EXPECT_NEAR(result.logprobs[row], -std::log(sum), 1e-5);
      const std::vector<float> x_alone(problem.x.begin() + static_cast<ptrdiff_t>(row * k),
                                       problem.x.begin() + static_cast<ptrdiff_t>((row + 1) * k));
      const ArgmaxResult alone = run_argmax(GetParam(), x_alone, weight, 1, k, n);
      EXPECT_EQ(alone.ids[0], result.ids[row]);
      EXPECT_EQ(alone.logprobs[0], result.logprobs[row]);
    }
    EXPECT_EQ(run_argmax(GetParam(), problem.x, weight, rows, k, n, false).ids, result.ids);
  }
}

TEST_P(CpuLinearArgmax, NanNeverWins) {
  const size_t n = 200;
  // One input feature, x = 1: the logits are the weights themselves.
  const std::vector<float> x{1.0F};
  std::vector<float> w(n, kNan);
  EXPECT_EQ(run_argmax(GetParam(), x, ArgmaxWeight(w), 1, 1, n).ids[0], 0);
  w[150] = -kInf;
  EXPECT_EQ(run_argmax(GetParam(), x, ArgmaxWeight(w), 1, 1, n).ids[0], 150);
  w[70] = -3.0F;
  w[71] = -3.0F;
  EXPECT_EQ(run_argmax(GetParam(), x, ArgmaxWeight(w), 1, 1, n).ids[0], 70);
  EXPECT_TRUE(std::isnan(run_argmax(GetParam(), x, ArgmaxWeight(w), 1, 1, n).logprobs[0]));
}

INSTANTIATE_TEST_SUITE_P(Isas, CpuLinearArgmax, testing::ValuesIn(isas_of_this_machine()),
                         [](const auto& test) { return isa_name(test.param); });

}  // namespace
}  // namespace foretoken::cpu
