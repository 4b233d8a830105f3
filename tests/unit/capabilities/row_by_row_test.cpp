// Linear operators over several rows on a device whose kernels take one.
#include "backends/row_by_row.h"

#include <gtest/gtest.h>

#include <cstring>

#include "backends/conformance/conformance.h"
#include "backends/ops.h"
#include "backends/registry.h"
#include "tests/support/gated_device.h"

namespace foretoken::test {
namespace {

constexpr int64_t kRows = 5;
constexpr int64_t kColumns = 192;
constexpr int64_t kFeatures = 256;

const LinearWeight kWeight{.weight = Tensor::shape_only(DType::kBF16, {kColumns, kFeatures}), .scale = {}, .global_scale = {}};

std::unique_ptr<GpuBackend> one_row_device() {
  const Gate gate{.device_name = "device for one row",
                  .one_row_only = {WeightFormat::kF32, WeightFormat::kBF16, WeightFormat::kFp8Row, WeightFormat::kFp8Block,
                                   WeightFormat::kNvfp4},
                  .row_by_row = true};
  return make_gated_backend(BackendRegistry::instance().open("cpu", {.num_threads = 2}), gate);
}

class RowByRowOperator : public ::testing::TestWithParam<const char*> {};

TEST_P(RowByRowOperator, ConformsForEveryFormat) {
  const auto backend = one_row_device();
  ConformanceOptions options;
  options.op = GetParam();
  options.implementation = "row by row";
  options.expectations = expectations_for("cpu");  // whose kernels the device runs
  const ConformanceReport report = run_conformance(*backend, options);
  EXPECT_TRUE(report.passed()) << report.to_table();
  EXPECT_GT(report.count(ConformanceOutcome::kPassed), 5U) << report.to_table();
}

INSTANTIATE_TEST_SUITE_P(Linear, RowByRowOperator, ::testing::Values("linear", "linear_silu_mul", "linear_argmax"),
                         [](const auto& instance) { return std::string(instance.param); });

TEST(RowByRow, GivesEachRowTheBitsOfThatRowAlone) {
  const auto backend = one_row_device();
  const auto stream = backend->create_stream();
  const Buffer x = backend->allocate(kRows * kFeatures * sizeof(float));
  const Buffer weight = backend->allocate(kColumns * kFeatures * sizeof(uint16_t));
  const Buffer out = backend->allocate(2 * kRows * kColumns * sizeof(float));
  const Tensor xs = x.tensor(DType::kF32, {kRows, kFeatures});
  const LinearWeight w{.weight = weight.tensor(DType::kBF16, {kColumns, kFeatures}), .scale = {}, .global_scale = {}};
  const Tensor together = out.tensor(DType::kF32, {kRows, kColumns});
  const Tensor alone = out.tensor(DType::kF32, {kRows, kColumns}, kRows * kColumns * sizeof(float));
  stream->run([&](CommandList& cmd) {
    ops::dispatch(cmd, RandomFill{.out = xs.reshape({kRows * kFeatures}), .seed = 1, .tensor_id = 1, .exponent = -7});
    ops::dispatch(cmd, RandomFill{.out = w.weight.reshape({kColumns * kFeatures}), .seed = 1, .tensor_id = 2, .exponent = -9});
    ops::linear(cmd, xs, w, together);
    for (int64_t row = 0; row < kRows; ++row) ops::linear(cmd, xs.rows(row, 1), w, alone.rows(row, 1));
  });
  std::vector<float> values(2 * kRows * kColumns);
  stream->download(out.view(), std::as_writable_bytes(std::span(values)));
  EXPECT_EQ(std::memcmp(values.data(), values.data() + kRows * kColumns, kRows * kColumns * sizeof(float)), 0);
  EXPECT_NE(values.front(), 0.0F);
}

TEST(RowByRow, LeavesSingleRowsToTheKernels) {
  const auto backend = one_row_device();
  const auto choose = [&](int64_t rows) {
    const Linear op{.x = Tensor::shape_only(DType::kF32, {rows, kFeatures}),
                    .w = kWeight,
                    .out = Tensor::shape_only(DType::kF32, {rows, kColumns}),
                    .workspace = {}};
    return backend->ops().choose("linear", &op).name;
  };
  EXPECT_NE(choose(1), "row by row");
  EXPECT_EQ(choose(2), "row by row");
}

TEST(RowByRow, AsksForTheWorkspaceOfOneRow) {
  const auto backend = one_row_device();
  const auto workspace = [&](int64_t rows) {
    const LinearArgmax op{.x = Tensor::shape_only(DType::kF32, {rows, kFeatures}),
                          .w = kWeight,
                          .token_ids = Tensor::shape_only(DType::kI32, {rows}),
                          .logprobs = {},
                          .workspace = {}};
    return ops::workspace_bytes(backend->ops(), op);
  };
  EXPECT_GT(workspace(1), 0U);
  EXPECT_EQ(workspace(kRows), workspace(1));
}

TEST(RowByRow, AddsNothingToATableWithoutTheOperators) {
  OpTable table;
  add_row_by_row(table);
  EXPECT_TRUE(table.find("linear").empty());
}

}  // namespace
}  // namespace foretoken::test
