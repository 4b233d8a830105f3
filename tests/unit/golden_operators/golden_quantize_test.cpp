// Quantising and back against the bundled reference values, bit for bit.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "backends/cpu/reference/host_tensor.h"
#include "core/error.h"
#include "core/ops/quantize.h"
#include "tests/support/golden.h"
#include "tests/unit/golden_operators/executor.h"

namespace foretoken {
namespace {

class GoldenQuantize : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    try {
      executor_ = std::make_unique<Executor>(GetParam());
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kUnsupported) throw;
      GTEST_SKIP() << error.what();
    }
  }

  Shape shape(const std::string& name) { return file_.find(name)->shape; }

  /// The golden array, its bytes taken as `dtype`.
  std::vector<float> golden(const std::string& name, DType dtype) {
    const auto bytes = file_.bytes(*file_.find(name));
    std::vector<float> values(bytes.size() * 8 / dtype_bits(dtype));
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>(load_element(bytes.data(), dtype, static_cast<int64_t>(i)));
    }
    return values;
  }

  Tensor source(const std::string& name) { return executor_->make(DType::kBF16, shape(name), golden(name, DType::kBF16)); }

  /// Values are compared as bits: codes 0 and -0 differ.
  void expect_equal(const Tensor& tensor, const std::string& name) {
    const std::vector<float> expected = golden(name, tensor.dtype());
    const std::vector<float> actual = executor_->read(tensor);
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < actual.size(); ++i) {
      ASSERT_EQ(std::bit_cast<uint32_t>(actual[i]), std::bit_cast<uint32_t>(expected[i])) << name << " at " << i;
    }
  }

  std::unique_ptr<Executor> executor_;
  SafetensorsFile file_{test::data_path("golden/operators.safetensors")};
};

TEST_P(GoldenQuantize, Fp8Row) {
  QuantizeFp8Row op;
  op.x = source("fp8_row.weight_bf16");
  op.codes = executor_->make(DType::kE4M3, op.x.shape());
  op.scale = executor_->make(DType::kF32, {op.x.dim(0)});
  executor_->run(op);
  expect_equal(op.codes, "fp8_row.q");
  expect_equal(op.scale, "fp8_row.row_scale");
}

TEST_P(GoldenQuantize, Fp8Block) {
  QuantizeFp8Block op;
  op.x = source("fp8_block.weight_bf16");
  op.codes = executor_->make(DType::kE4M3, op.x.shape());
  op.scale = executor_->make(DType::kF32, shape("fp8_block.scale_inv"));
  executor_->run(op);
  expect_equal(op.codes, "fp8_block.q");
  expect_equal(op.scale, "fp8_block.scale_inv");
}

TEST_P(GoldenQuantize, Nvfp4) {
  AbsMax amax;
  amax.x = source("nvfp4.weight_bf16");
  amax.amax = executor_->make(DType::kF32, {1});
  executor_->run(amax);
  QuantizeNvfp4 op;
  op.x = amax.x;
  op.amax = amax.amax;
  op.codes = executor_->make(DType::kE2M1, op.x.shape());
  op.scale = executor_->make(DType::kE4M3, shape("nvfp4.scale"));
  op.global_scale = executor_->make(DType::kF32, {1});
  executor_->run(op);
  expect_equal(op.codes, "nvfp4.packed");
  expect_equal(op.scale, "nvfp4.scale");
  expect_equal(op.global_scale, "nvfp4.scale_2");

  Dequantize back;
  back.w = {.weight = op.codes, .scale = op.scale, .global_scale = op.global_scale, .format = WeightFormat::kNvfp4};
  back.out = executor_->make(DType::kF32, op.x.shape());
  executor_->run(back);
  const std::vector<float> expected = golden("nvfp4.dequant", DType::kF32);
  const std::vector<float> actual = executor_->read(back.out);
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_NEAR(actual[i], expected[i], 1.2e-7 * std::fabs(expected[i])) << "one float32 rounding apart";
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, GoldenQuantize, testing::Values("reference", "scalar", "avx2", "avx512", "avx512_vnni"),
                         [](const auto& param) { return param.param; });

}  // namespace
}  // namespace foretoken
