// Conversions and weight formats against the bundled reference values, exactly.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "backends/cpu/reference/host_buffer.h"
#include "backends/cpu/reference/weight_access.h"
#include "tests/support/golden.h"

namespace foretoken {
namespace {

/// An array of the golden file in host memory.
class GoldenTensors {
 public:
  Tensor tensor(const std::string& name, DType dtype, const Shape& shape) {
    const auto bytes = file_.bytes(*file_.find(name));
    buffers_.push_back(std::make_unique<HostBuffer>(bytes.size()));
    std::ranges::copy(bytes, buffers_.back()->host_data());
    return Tensor({.buffer = buffers_.back().get(), .offset = 0, .bytes = bytes.size()}, dtype, shape);
  }
  template <class T>
  std::vector<T> array(const std::string& name) {
    const auto bytes = file_.bytes(*file_.find(name));
    std::vector<T> values(bytes.size() / sizeof(T));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  Shape shape(const std::string& name) { return file_.find(name)->shape; }

 private:
  SafetensorsFile file_{test::data_path("golden/operators.safetensors")};
  std::vector<std::unique_ptr<HostBuffer>> buffers_;
};

class GoldenConversions : public ::testing::Test {
 protected:
  GoldenTensors golden_;
};

TEST_F(GoldenConversions, Bf16Encode) {
  const auto x = golden_.array<float>("bf16_encode.x");
  const auto bits = golden_.array<uint16_t>("bf16_encode.bits");
  ASSERT_EQ(x.size(), bits.size());
  for (size_t i = 0; i < x.size(); ++i) EXPECT_EQ(float_to_bf16(x[i]), bits[i]) << std::hexfloat << x[i];
}

TEST_F(GoldenConversions, E4M3Decode) {
  const auto bytes = golden_.array<uint8_t>("e4m3_decode.bytes");
  const auto values = golden_.array<float>("e4m3_decode.value");
  ASSERT_EQ(bytes.size(), 256U);
  for (size_t i = 0; i < bytes.size(); ++i) {
    const float value = e4m3_to_float(bytes[i]);
    EXPECT_TRUE(std::isnan(values[i]) ? std::isnan(value) : std::bit_cast<uint32_t>(value) == std::bit_cast<uint32_t>(values[i]));
  }
}

TEST_F(GoldenConversions, E4M3Encode) {
  const auto x = golden_.array<float>("e4m3_encode.x");
  const auto bytes = golden_.array<uint8_t>("e4m3_encode.byte");
  ASSERT_EQ(x.size(), bytes.size());
  for (size_t i = 0; i < x.size(); ++i) EXPECT_EQ(float_to_e4m3(x[i]), bytes[i]) << std::hexfloat << x[i];
}

/// Code of an FP8 weight: E4M3(clamp(w / s, -448, 448)), in float32.
uint8_t fp8_code(float weight, float scale) { return float_to_e4m3(std::clamp(weight / scale, -448.0F, 448.0F)); }

TEST_F(GoldenConversions, Fp8Row) {
  const Shape shape = golden_.shape("fp8_row.q");
  const HostTensor weight(golden_.tensor("fp8_row.weight_bf16", DType::kBF16, shape));
  const auto scales = golden_.array<float>("fp8_row.row_scale");
  const auto codes = golden_.array<uint8_t>("fp8_row.q");
  const LinearWeight quantised{.weight = golden_.tensor("fp8_row.q", DType::kE4M3, shape),
                               .scale = golden_.tensor("fp8_row.row_scale", DType::kF32, {shape[0]}),
                               .global_scale = {},
                               .format = WeightFormat::kFp8Row};
  for (int64_t n = 0; n < shape[0]; ++n) {
    const float scale = scales[static_cast<size_t>(n)];
    for (int64_t k = 0; k < shape[1]; ++k) {
      const uint8_t code = codes[static_cast<size_t>(n * shape[1] + k)];
      EXPECT_EQ(fp8_code(static_cast<float>(weight(n, k)), scale), code);
      EXPECT_EQ(weight_at(quantised, n, k), static_cast<double>(e4m3_to_float(code)) * static_cast<double>(scale));
    }
  }
}

TEST_F(GoldenConversions, Fp8Block) {
  const Shape shape = golden_.shape("fp8_block.q");
  const HostTensor weight(golden_.tensor("fp8_block.weight_bf16", DType::kBF16, shape));
  const Shape blocks = golden_.shape("fp8_block.scale_inv");
  const auto scales = golden_.array<float>("fp8_block.scale_inv");
  const auto codes = golden_.array<uint8_t>("fp8_block.q");
  const LinearWeight quantised{.weight = golden_.tensor("fp8_block.q", DType::kE4M3, shape),
                               .scale = golden_.tensor("fp8_block.scale_inv", DType::kF32, blocks),
                               .global_scale = {},
                               .format = WeightFormat::kFp8Block};
  for (int64_t n = 0; n < shape[0]; ++n) {
    for (int64_t k = 0; k < shape[1]; ++k) {
      const float scale = scales[static_cast<size_t>(n / 128 * blocks[1] + k / 128)];
      const uint8_t code = codes[static_cast<size_t>(n * shape[1] + k)];
      EXPECT_EQ(fp8_code(static_cast<float>(weight(n, k)), scale), code);
      EXPECT_EQ(weight_at(quantised, n, k), static_cast<double>(e4m3_to_float(code)) * static_cast<double>(scale));
    }
  }
}

TEST_F(GoldenConversions, Nvfp4) {
  const Shape shape = golden_.shape("nvfp4.weight_bf16");
  const HostTensor weight(golden_.tensor("nvfp4.weight_bf16", DType::kBF16, shape));
  const HostTensor dequant(golden_.tensor("nvfp4.dequant", DType::kF32, shape));
  const auto packed = golden_.array<uint8_t>("nvfp4.packed");
  const LinearWeight quantised{.weight = golden_.tensor("nvfp4.packed", DType::kE2M1, shape),
                               .scale = golden_.tensor("nvfp4.scale", DType::kE4M3, {shape[0], shape[1] / 16}),
                               .global_scale = golden_.tensor("nvfp4.scale_2", DType::kF32, {1}),
                               .format = WeightFormat::kNvfp4};
  const HostTensor scale(quantised.scale);
  const float scale_2 = golden_.array<float>("nvfp4.scale_2")[0];
  for (int64_t n = 0; n < shape[0]; ++n) {
    for (int64_t k = 0; k < shape[1]; ++k) {
      const float product = static_cast<float>(scale(n, k / 16)) * scale_2;
      const float y = product == 0.0F ? 0.0F : static_cast<float>(weight(n, k)) / product;
      const uint8_t pair = packed[static_cast<size_t>((n * shape[1] + k) / 2)];
      EXPECT_EQ(float_to_e2m1(y), k % 2 == 0 ? pair & 0xf : pair >> 4);
      EXPECT_NEAR(weight_at(quantised, n, k), dequant(n, k), 1.2e-7 * std::fabs(dequant(n, k))) << "one float32 rounding apart";
    }
  }
}

}  // namespace
}  // namespace foretoken
