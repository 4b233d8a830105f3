// Conversions over all codes, against formulas written another way.
#include "core/dtype.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>

namespace foretoken {
namespace {

/// Floats around everything that rounds: neighbours of each value and of each midpoint of `grid`, with both signs.
std::vector<float> values_around(const std::vector<float>& grid) {
  std::vector<float> values;
  for (size_t i = 0; i < grid.size(); ++i) {
    const float next = i + 1 < grid.size() ? grid[i + 1] : grid[i] * 1.0625F;
    const auto middle = static_cast<float>((static_cast<double>(grid[i]) + static_cast<double>(next)) / 2.0);
    for (const float value : {grid[i], middle}) {
      for (const float neighbour : {value, std::nextafterf(value, 0.0F), std::nextafterf(value, INFINITY)}) {
        values.push_back(neighbour);
        values.push_back(-neighbour);
      }
    }
  }
  return values;
}

/// Index of the nearest grid value by plain search; a tie goes to the even index, as codes are consecutive.
size_t nearest(const std::vector<float>& grid, float magnitude) {
  size_t best = 0;
  for (size_t i = 1; i < grid.size(); ++i) {
    const double here = std::fabs(static_cast<double>(grid[i]) - static_cast<double>(magnitude));
    const double there = std::fabs(static_cast<double>(grid[best]) - static_cast<double>(magnitude));
    if (here < there || (here == there && i % 2 == 0)) best = i;
  }
  return best;
}

TEST(Bf16, DecodesAllCodesToTheUpperHalfOfAFloat) {
  for (uint32_t bits = 0; bits < 0x10000U; ++bits) {
    const float value = bf16_to_float(static_cast<uint16_t>(bits));
    EXPECT_EQ(std::bit_cast<uint32_t>(value), bits << 16);
    if (std::isnan(value)) continue;
    EXPECT_EQ(float_to_bf16(value), bits) << "a BF16 value must round to itself";
  }
}

TEST(Bf16, RoundsToNearestEven) {
  const auto check = [](float value) {
    const auto bits = std::bit_cast<uint32_t>(value);
    const auto below = static_cast<uint16_t>(bits >> 16);
    const auto above = static_cast<uint16_t>(below + 1U);
    const uint32_t rest = bits & 0xffffU;
    const uint16_t expected = rest > 0x8000U || (rest == 0x8000U && (below & 1U) != 0) ? above : below;
    EXPECT_EQ(float_to_bf16(value), expected) << std::hexfloat << value;
  };
  for (uint32_t upper = 0; upper < 0x10000U; upper += 7) {
    for (const uint32_t lower : {0U, 1U, 0x7fffU, 0x8000U, 0x8001U, 0xffffU}) {
      const auto value = std::bit_cast<float>(upper << 16 | lower);
      if (std::isfinite(value)) check(value);
    }
  }
}

TEST(Bf16, KeepsInfinityAndNan) {
  EXPECT_EQ(float_to_bf16(INFINITY), 0x7f80);
  EXPECT_EQ(float_to_bf16(-INFINITY), 0xff80);
  EXPECT_EQ(float_to_bf16(3.4e38F), 0x7f80) << "past the largest BF16";
  for (const uint32_t bits : {0x7f800001U, 0xff800001U, 0x7fc00000U, 0x7fffffffU, 0xffffffffU}) {
    const float back = bf16_to_float(float_to_bf16(std::bit_cast<float>(bits)));
    EXPECT_TRUE(std::isnan(back));
    EXPECT_EQ(std::signbit(back), bits >> 31 != 0);
  }
}

/// The non-negative E4M3 values in the order of their codes 0x00 .. 0x7e.
std::vector<float> e4m3_grid() {
  std::vector<float> grid;
  for (int code = 0; code < 0x7f; ++code) {
    const int exponent = code / 8;
    const double fraction = code % 8 / 8.0;
    grid.push_back(
        static_cast<float>(exponent == 0 ? fraction * std::pow(2.0, -6) : (1.0 + fraction) * std::pow(2.0, exponent - 7)));
  }
  return grid;
}

TEST(E4M3, DecodesAllCodes) {
  const std::vector<float> grid = e4m3_grid();
  EXPECT_EQ(grid.back(), 448.0F);
  for (unsigned code = 0; code < 0x7fU; ++code) {
    EXPECT_EQ(e4m3_to_float(static_cast<uint8_t>(code)), grid[code]);
    EXPECT_EQ(e4m3_to_float(static_cast<uint8_t>(code | 0x80U)), -grid[code]);
    EXPECT_EQ(float_to_e4m3(grid[code]), code);
    EXPECT_EQ(float_to_e4m3(-grid[code]), code | 0x80U);
  }
  EXPECT_TRUE(std::isnan(e4m3_to_float(0x7f)));
  EXPECT_TRUE(std::isnan(e4m3_to_float(0xff)));
}

TEST(E4M3, RoundsToNearestEven) {
  const std::vector<float> grid = e4m3_grid();
  std::vector<float> values = values_around(grid);
  std::mt19937 generator(5);
  std::uniform_real_distribution<float> exponent(-12.0F, 9.0F);
  for (int i = 0; i < 20000; ++i) values.push_back(std::exp2(exponent(generator)));
  for (const float value : values) {
    const auto sign = static_cast<uint8_t>(std::signbit(value) ? 0x80 : 0x00);
    EXPECT_EQ(float_to_e4m3(value), nearest(grid, std::fabs(value)) | sign) << std::hexfloat << value;
  }
}

TEST(E4M3, SaturatesAndKeepsNan) {
  for (const float value : {448.0F, 449.0F, 464.0F, 1e30F, INFINITY}) {
    EXPECT_EQ(float_to_e4m3(value), 0x7e);
    EXPECT_EQ(float_to_e4m3(-value), 0xfe);
  }
  EXPECT_EQ(float_to_e4m3(std::nanf("")), 0x7f);
}

TEST(E2M1, RoundsToTheTableTiesToEven) {
  const std::vector<float> grid = {0.0F, 0.5F, 1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 6.0F};
  for (unsigned code = 0; code < 8; ++code) {
    EXPECT_EQ(e2m1_to_float(static_cast<uint8_t>(code)), grid[code]);
    EXPECT_EQ(e2m1_to_float(static_cast<uint8_t>(code | 8U)), -grid[code]);
  }
  for (const float value : values_around(grid)) {
    const unsigned sign = value < 0.0F ? 8U : 0U;
    EXPECT_EQ(float_to_e2m1(value), nearest(grid, std::fabs(value)) | sign) << value;
  }
  EXPECT_EQ(float_to_e2m1(0.25F), 0) << "the tie between 0 and 0.5 goes to the even code";
  EXPECT_EQ(float_to_e2m1(-0.1F), 8) << "the sign stays when a negative value rounds to 0";
  EXPECT_EQ(float_to_e2m1(1e9F), 7);
  EXPECT_EQ(float_to_e2m1(-INFINITY), 15);
  EXPECT_EQ(float_to_e2m1(std::nanf("")), 0);
}

TEST(DTypes, HaveSizesAndNames) {
  EXPECT_EQ(dtype_bytes(DType::kF32, 3), 12U);
  EXPECT_EQ(dtype_bytes(DType::kBF16, 3), 6U);
  EXPECT_EQ(dtype_bytes(DType::kI64, 3), 24U);
  EXPECT_EQ(dtype_bytes(DType::kE4M3, 3), 3U);
  EXPECT_EQ(dtype_bytes(DType::kE2M1, 3), 2U);
  EXPECT_EQ(dtype_bytes(DType::kE2M1, 4), 2U);
  EXPECT_EQ(parse_safetensors_dtype("F8_E4M3"), DType::kE4M3);
  EXPECT_EQ(parse_safetensors_dtype("BF16"), DType::kBF16);
  EXPECT_EQ(parse_safetensors_dtype("E2M1"), std::nullopt) << "packed FP4 has no name of its own in a file";
  EXPECT_EQ(parse_safetensors_dtype("f32"), std::nullopt);
}

}  // namespace
}  // namespace foretoken
