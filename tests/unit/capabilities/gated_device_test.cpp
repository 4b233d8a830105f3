// The test device takes away what its gate says, in its capabilities and in its operators.
#include "tests/support/gated_device.h"

#include <gtest/gtest.h>

#include "backends/ops.h"
#include "backends/registry.h"

namespace foretoken::test {
namespace {

std::unique_ptr<GpuBackend> gated_cpu(const Gate& gate) {
  return make_gated_backend(BackendRegistry::instance().open("cpu", {.num_threads = 1}), gate);
}

Availability linear_of(const GpuBackend& backend, WeightFormat format, int64_t rows) {
  const Linear op{
      .x = Tensor::shape_only(DType::kF32, {rows, 128}),
      .w = {.weight = Tensor::shape_only(code_dtype(format), {64, 128}), .scale = {}, .global_scale = {}, .format = format},
      .out = Tensor::shape_only(DType::kF32, {rows, 64}),
      .workspace = {}};
  return backend.ops().availability("linear", &op);
}

TEST(GatedDevice, NamesWhatItDoesNotStore) {
  const auto backend = gated_cpu(without_nvfp4());
  const WeightFormatSupport support = backend->capabilities().weight_format(WeightFormat::kNvfp4);
  EXPECT_EQ(support.storable.reason(), gate_reason(WeightFormat::kNvfp4));
  EXPECT_EQ(support.fast.reason(), gate_reason(WeightFormat::kNvfp4));
  EXPECT_FALSE(linear_of(*backend, WeightFormat::kNvfp4, 1));
  EXPECT_TRUE(linear_of(*backend, WeightFormat::kBF16, 4));
}

TEST(GatedDevice, StoresNothingWhenAllIsTakenAway) {
  const auto backend = gated_cpu(stores_nothing());
  EXPECT_EQ(backend->capabilities().usable_formats(), "none: this device stores no weights");
  EXPECT_FALSE(linear_of(*backend, WeightFormat::kBF16, 1));
}

TEST(GatedDevice, TakesOneRowUntilRowByRowIsRegistered) {
  Gate gate{.one_row_only = {WeightFormat::kBF16}};
  const auto one_row = gated_cpu(gate);
  EXPECT_TRUE(linear_of(*one_row, WeightFormat::kBF16, 1));
  EXPECT_FALSE(linear_of(*one_row, WeightFormat::kBF16, 2));
  EXPECT_TRUE(linear_of(*one_row, WeightFormat::kF32, 2));
  gate.row_by_row = true;
  EXPECT_TRUE(linear_of(*gated_cpu(gate), WeightFormat::kBF16, 2));
}

}  // namespace
}  // namespace foretoken::test
