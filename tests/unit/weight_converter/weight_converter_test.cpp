// convert_weight against the reference operators on whole matrices.
#include "models/weight_converter.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <random>

#include "backends/cpu/reference/reference.h"
#include "backends/cpu/reference/weight_access.h"
#include "backends/ops.h"
#include "backends/registry.h"
#include "core/error.h"
#include "tests/support/reference_backend.h"

namespace foretoken {
namespace {

constexpr WeightFormat kFormats[] = {WeightFormat::kF32, WeightFormat::kBF16, WeightFormat::kFp8Row, WeightFormat::kFp8Block,
                                     WeightFormat::kNvfp4};

/// A device whose memory the host reads, with weights on it.
class WeightConverter : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (GetParam() == std::string("cpu")) {
      backend_ = BackendRegistry::instance().open("cpu", {.num_threads = 2});
    } else {
      backend_ = std::make_unique<test::ReferenceBackend>();
    }
    stream_ = backend_->create_stream();
  }

  bool stores(WeightFormat format) const { return bool(backend_->capabilities().weight_format(format).storable); }

  Tensor make(DType dtype, const Shape& shape) {
    buffers_.push_back(
        backend_->allocate(dtype_bytes(dtype, static_cast<size_t>(shape.num_elements())), MemoryKind::kHostVisible));
    return buffers_.back().tensor(dtype, shape);
  }

  Tensor random(DType dtype, const Shape& shape, double low, double high) {
    const Tensor tensor = make(dtype, shape);
    std::uniform_real_distribution<double> distribution(low, high);
    auto* data = reinterpret_cast<std::byte*>(tensor.address());
    for (int64_t i = 0; i < shape.num_elements(); ++i) store_element(data, dtype, i, distribution(generator_));
    return tensor;
  }

  LinearWeight random_weight(WeightFormat format, const Shape& shape, int64_t block_rows = 128, int64_t row_groups = 1) {
    LinearWeight weight{.weight = random(code_dtype(format), shape, -5.0, 5.0),
                        .scale = {},
                        .global_scale = {},
                        .format = format,
                        .block_rows = static_cast<int32_t>(block_rows)};
    const Shape scales = scale_shape(format, shape, block_rows);
    if (format == WeightFormat::kFp8Row || format == WeightFormat::kFp8Block) {
      weight.scale = random(DType::kF32, scales, 0.001, 0.1);
    } else if (format == WeightFormat::kNvfp4) {
      weight.scale = random(DType::kE4M3, scales, 1.0, 448.0);
      const Shape globals = shape.rank() == 3 ? Shape{shape[0], row_groups} : Shape{row_groups};
      weight.global_scale = random(DType::kF32, globals, 1e-4, 1e-2);
    }
    return weight;
  }

  /// Rows [begin, begin + count) of a matrix in float32.
  Tensor decoded(const LinearWeight& matrix, int64_t begin, int64_t count) {
    const Tensor out = make(DType::kF32, {count, matrix.in_features()});
    const HostTensor values(out);
    const WeightReader reader(matrix);
    for (int64_t n = 0; n < count; ++n) {
      for (int64_t k = 0; k < matrix.in_features(); ++k) values.set(reader(begin + n, k), n, k);
    }
    return out;
  }

  /// `x` in `format`, by one call of the reference operator over all of it.
  LinearWeight quantised(const Tensor& x, WeightFormat format, const Tensor& column_weight = {}) {
    LinearWeight weight{.weight = make(code_dtype(format), x.shape()), .scale = {}, .global_scale = {}, .format = format};
    switch (format) {
      case WeightFormat::kF32:
      case WeightFormat::kBF16: {
        const LinearWeight plain{.weight = x, .scale = {}, .global_scale = {}, .format = WeightFormat::kF32};
        reference(Dequantize{.w = plain, .out = weight.weight});
        break;
      }
      case WeightFormat::kFp8Row:
        weight.scale = make(DType::kF32, {x.dim(0)});
        reference(QuantizeFp8Row{.x = x, .codes = weight.weight, .scale = weight.scale});
        break;
      case WeightFormat::kFp8Block:
        weight.scale = make(DType::kF32, scale_shape(format, x.shape()));
        reference(QuantizeFp8Block{.x = x, .codes = weight.weight, .scale = weight.scale});
        break;
      case WeightFormat::kNvfp4: {
        const Tensor amax = make(DType::kF32, {1});
        reference(AbsMax{.x = x, .amax = amax, .workspace = {}});
        weight.scale = make(DType::kE4M3, scale_shape(format, x.shape()));
        weight.global_scale = make(DType::kF32, {1});
        reference(QuantizeNvfp4{.x = x,
                                .amax = amax,
                                .column_weight = column_weight,
                                .codes = weight.weight,
                                .scale = weight.scale,
                                .global_scale = weight.global_scale});
        break;
      }
    }
    return weight;
  }

  /// Each group of rows of `result` has the elements of the group quantised by itself.
  void expect_groups(const LinearWeight& source, const LinearWeight& result, int64_t row_groups,
                     const Tensor& column_weight = {}) {
    const int64_t rows = source.out_features() / row_groups;
    const WeightReader actual(result);
    for (int64_t group = 0; group < row_groups; ++group) {
      const LinearWeight apart = quantised(decoded(source, group * rows, rows), result.format, column_weight);
      const WeightReader expected(apart);
      for (int64_t n = 0; n < rows; ++n) {
        for (int64_t k = 0; k < source.in_features(); ++k) {
          ASSERT_EQ(std::bit_cast<uint64_t>(actual(group * rows + n, k)), std::bit_cast<uint64_t>(expected(n, k)))
              << "group " << group << " row " << n << " column " << k;
        }
      }
    }
  }

  static void expect_same_bytes(const Tensor& a, const Tensor& b) {
    ASSERT_EQ(a.shape(), b.shape());
    ASSERT_EQ(a.bytes(), b.bytes());
    if (a.is_absent()) return;
    const auto* data = reinterpret_cast<const std::byte*>(a.address());
    EXPECT_EQ(std::memcmp(data, reinterpret_cast<const std::byte*>(b.address()), a.bytes()), 0);
  }

  ConvertedWeight convert(const LinearWeight& source, WeightFormat format, int64_t row_groups = 1,
                          const Tensor& column_weight = {}) {
    ConvertedWeight result = convert_weight(*backend_, *stream_, source, format, row_groups, column_weight);
    check_weight("result", result.weight);
    EXPECT_EQ(result.weight.format, format);
    return result;
  }

  std::unique_ptr<GpuBackend> backend_;
  std::vector<Buffer> buffers_;
  std::unique_ptr<Stream> stream_;
  std::mt19937_64 generator_{7};
};

TEST_P(WeightConverter, EveryFormatToEveryFormat) {
  for (const WeightFormat from : kFormats) {
    const LinearWeight source = random_weight(from, {200, 144});
    for (const WeightFormat to : kFormats) {
      if (!stores(from) || !stores(to)) continue;
      SCOPED_TRACE(std::string(to_string(from)) + " to " + std::string(to_string(to)));
      const ConvertedWeight result = convert(source, to);
      if (from == to) {
        expect_same_bytes(result.weight.weight, source.weight);
        expect_same_bytes(result.weight.scale, source.scale);
        expect_same_bytes(result.weight.global_scale, source.global_scale);
      } else {
        expect_groups(source, result.weight, 1);
      }
      EXPECT_EQ(result.memory.bytes(), converted_bytes(to, {200, 144}));
    }
  }
}

TEST_P(WeightConverter, StacksInGroupsOfRows) {
  const Shape shape{3, 192, 160};
  for (const WeightFormat from : kFormats) {
    // Blocks and groups of the source line up with neither the target's groups nor its tiles.
    const LinearWeight source = random_weight(from, shape, 64, from == WeightFormat::kNvfp4 ? 3 : 1);
    for (const WeightFormat to : {WeightFormat::kF32, WeightFormat::kFp8Row, WeightFormat::kFp8Block, WeightFormat::kNvfp4}) {
      if (from == to || !stores(from) || !stores(to)) continue;
      for (const int64_t row_groups : {1, 2}) {
        SCOPED_TRACE(std::string(to_string(from)) + " to " + std::string(to_string(to)) +
                     ", groups: " + std::to_string(row_groups));
        const ConvertedWeight result = convert(source, to, row_groups);
        EXPECT_EQ(result.memory.bytes(), converted_bytes(to, shape, row_groups));
        for (int64_t e = 0; e < shape[0]; ++e) expect_groups(source.expert(e), result.weight.expert(e), row_groups);
      }
    }
  }
}

TEST_P(WeightConverter, BlocksOfGroupsSharePowersOfTwoOfRows) {
  struct Expectation {
    int64_t num_rows;
    int32_t block_rows;
  };
  for (const auto& [num_rows, block_rows] : {Expectation{384, 64}, {512, 128}, {192, 32}, {12, 2}, {10, 1}}) {
    const LinearWeight source = random_weight(WeightFormat::kBF16, {num_rows, 130});
    const ConvertedWeight result = convert(source, WeightFormat::kFp8Block, 2);
    EXPECT_EQ(result.weight.block_rows, block_rows) << num_rows;
    expect_groups(source, result.weight, 2);
  }
  const ConvertedWeight whole = convert(random_weight(WeightFormat::kBF16, {10, 130}), WeightFormat::kFp8Block);
  EXPECT_EQ(whole.weight.block_rows, 128) << "one group may end anywhere";
}

TEST_P(WeightConverter, OneScaleForTheWholeTensor) {
  LinearWeight source = random_weight(WeightFormat::kFp8Row, {20, 32});
  source.scale = random(DType::kBF16, {1}, 0.01, 0.02);
  expect_groups(source, convert(source, WeightFormat::kF32).weight, 1);
  expect_groups(source, convert(source, WeightFormat::kFp8Block).weight, 1);
  const ConvertedWeight copy = convert(source, WeightFormat::kFp8Row);
  EXPECT_EQ(copy.weight.scale.shape(), Shape{1});
  EXPECT_EQ(copy.weight.scale.dtype(), DType::kBF16);
}

TEST_P(WeightConverter, LongRowsAreConvertedInSlices) {
  if (GetParam() == std::string("reference")) GTEST_SKIP() << "slow, and slices are the same on every device";
  const Shape shape{300, 16400};  // 128 rows of float32 are half a slice
  const LinearWeight source = random_weight(WeightFormat::kFp8Block, shape);
  expect_groups(source, convert(source, WeightFormat::kFp8Row).weight, 1);
  if (stores(WeightFormat::kNvfp4)) expect_groups(source, convert(source, WeightFormat::kNvfp4).weight, 1);
}

TEST_P(WeightConverter, WeightsOfColumnsAreForEveryMatrixOfAStackInNvfp4) {
  const Shape shape{3, 64, 160};
  const LinearWeight source = random_weight(WeightFormat::kBF16, shape);
  const Tensor column_weight = random(DType::kF32, {160}, 0.1, 9.0);
  for (const WeightFormat to : {WeightFormat::kFp8Row, WeightFormat::kFp8Block}) {
    expect_same_bytes(convert(source, to, 2, column_weight).weight.weight, convert(source, to, 2).weight.weight);
  }
  if (!stores(WeightFormat::kNvfp4)) return;
  const ConvertedWeight result = convert(source, WeightFormat::kNvfp4, 2, column_weight);
  for (int64_t e = 0; e < shape[0]; ++e) expect_groups(source.expert(e), result.weight.expert(e), 2, column_weight);
  const ConvertedWeight plain = convert(source, WeightFormat::kNvfp4, 2);
  expect_same_bytes(result.weight.global_scale, plain.weight.global_scale);
  const auto* scales = reinterpret_cast<const std::byte*>(result.weight.scale.address());
  const auto* plain_scales = reinterpret_cast<const std::byte*>(plain.weight.scale.address());
  EXPECT_NE(std::memcmp(scales, plain_scales, result.weight.scale.bytes()), 0) << "no scale moved";
}

TEST_P(WeightConverter, RefusesWhatDoesNotFit) {
  const auto expect_error = [&](const LinearWeight& source, WeightFormat format, int64_t row_groups, ErrorCode code,
                                const std::string& text, const Tensor& column_weight = {}) {
    const size_t before = backend_->allocated_bytes();
    try {
      (void)convert_weight(*backend_, *stream_, source, format, row_groups, column_weight);
      ADD_FAILURE() << "accepted, expected: " << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
    }
    EXPECT_EQ(backend_->allocated_bytes(), before);
  };
  const LinearWeight odd = random_weight(WeightFormat::kBF16, {6, 40});
  if (stores(WeightFormat::kNvfp4)) {
    expect_error(odd, WeightFormat::kNvfp4, 1, ErrorCode::kInvalidArgument, "multiple of 16");
  } else {
    expect_error(odd, WeightFormat::kNvfp4, 1, ErrorCode::kUnsupported, "nvfp4");
  }
  expect_error(odd, WeightFormat::kFp8Block, 4, ErrorCode::kInvalidArgument, "4 groups");
  expect_error(odd, WeightFormat::kFp8Block, 0, ErrorCode::kInvalidArgument, "0 groups");
  for (const Tensor& wrong : {random(DType::kF32, {39}, 0.5, 1.0), random(DType::kBF16, {40}, 0.5, 1.0)}) {
    expect_error(odd, WeightFormat::kFp8Block, 1, ErrorCode::kInvalidArgument, "column_weight", wrong);
  }
  LinearWeight broken = random_weight(WeightFormat::kFp8Row, {6, 40});
  broken.scale = {};
  expect_error(broken, WeightFormat::kF32, 1, ErrorCode::kInvalidArgument, "needs a scale");
}

INSTANTIATE_TEST_SUITE_P(Devices, WeightConverter, testing::Values("reference", "cpu"),
                         [](const auto& param) { return param.param; });

}  // namespace
}  // namespace foretoken
