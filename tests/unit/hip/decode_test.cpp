// The text of the kernels that makes numbers of codes, for every code.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>

#include "core/dtype.h"

#define FORETOKEN_DEVICE inline

namespace foretoken::gpu {
namespace {

struct float2 {
  float x;
  float y;
};
__extension__ using Half = _Float16;
struct Halves {
  Half low;
  Half high;
};
Halves halves_of_bits(uint32_t bits) { return std::bit_cast<Halves>(bits); }
Half round_to_half(double value) { return static_cast<Half>(value); }
Halves multiply(Halves a, Halves b) {
  return {round_to_half(double{a.low} * double{b.low}), round_to_half(double{a.high} * double{b.high})};
}
Halves multiply_add(Halves a, Halves b, Halves c) {
  return {round_to_half(double{a.low} * double{b.low} + double{c.low}),
          round_to_half(double{a.high} * double{b.high} + double{c.high})};
}
template <uint32_t kLow, uint32_t kHigh>
uint32_t spread_bytes(uint32_t bytes) {
  return (bytes >> 8 * kLow & 0xffU) << 8 | (bytes >> 8 * kHigh & 0xffU) << 24;
}
float2 to_floats(Halves halves) { return {static_cast<float>(halves.low), static_cast<float>(halves.high)}; }

}  // namespace
}  // namespace foretoken::gpu

#include "backends/hip/kernels/decode.h"

namespace foretoken::gpu {
namespace {

void expect_equal(float value, float expected, uint32_t code) {
  if (std::isnan(expected)) {
    EXPECT_TRUE(std::isnan(value)) << code;
    return;
  }
  EXPECT_EQ(value, expected) << code;
  EXPECT_EQ(std::signbit(value), std::signbit(expected)) << code;
}

/// Every pair of codes, with bits above them that must not matter.
TEST(HipDecode, EveryPairOfE4m3Codes) {
  for (uint32_t pair = 0; pair < 65536; ++pair) {
    const float2 two = decode_e4m3x2(pair);
    ASSERT_NO_FATAL_FAILURE(expect_equal(two.x, foretoken::e4m3_to_float(static_cast<uint8_t>(pair)), pair));
    ASSERT_NO_FATAL_FAILURE(expect_equal(two.y, foretoken::e4m3_to_float(static_cast<uint8_t>(pair >> 8)), pair));
  }
}

/// Each code at each place among others, but NaN, which no weight is.
TEST(HipDecode, WeightsOfE4m3AreTheirValuesDivided) {
  const auto expected = [](uint32_t code) { return foretoken::e4m3_to_float(static_cast<uint8_t>(code)) / kE4m3Divisor; };
  for (uint32_t i = 0; i < 65536; ++i) {
    const std::array<uint32_t, 4> bytes{i & 0xffU, i >> 8, i * 7U & 0xffU, i * 13U >> 3 & 0xffU};
    const uint32_t codes = bytes[0] | bytes[1] << 8 | bytes[2] << 16 | bytes[3] << 24;
    float two[2];
    decode_weights(codes & 0xffffU, two);
    float four[4];
    decode_weights(codes, four);
    for (size_t at = 0; at < 4; ++at) {
      if ((bytes[at] & 0x7fU) == 0x7fU) continue;
      ASSERT_NO_FATAL_FAILURE(expect_equal(four[at], expected(bytes[at]), bytes[at]));
      if (at >= 2) continue;
      ASSERT_NO_FATAL_FAILURE(expect_equal(two[at], expected(bytes[at]), bytes[at]));
    }
  }
}

TEST(HipDecode, EveryE2m1CodeAtEveryPlace) {
  for (uint32_t code = 0; code < 16; ++code) {
    for (uint32_t others = 0; others < 16; ++others) {
      for (uint32_t at = 0; at < 8; ++at) {
        const uint32_t codes = (others * 0x11111111U & ~(0xfU << 4 * at)) | code << 4 * at;
        const float expected = e2m1_to_float(static_cast<uint8_t>(code));
        float values[8];
        decode_e2m1x8(codes, values);
        expect_equal(values[at], expected, code);
        float weights[8];
        decode_weights(codes, weights);
        expect_equal(weights[at], expected / kE2m1Divisor, code);
      }
    }
  }
}

}  // namespace
}  // namespace foretoken::gpu
