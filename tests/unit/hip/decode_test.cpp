// The text of the kernels that makes numbers of codes, for every code.
#include <gtest/gtest.h>

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

/// Every pair of codes, with bits around them that must not matter.
TEST(HipDecode, EveryPairOfE4m3Codes) {
  for (uint32_t pair = 0; pair < 65536; ++pair) {
    const uint32_t low = pair & 0xffU;
    const uint32_t high = pair >> 8;
    const float2 two = decode_upper_e4m3x2(high << 24 | low << 8 | (pair * 7U & 0xffU) << 16 | (pair * 3U & 0xffU));
    ASSERT_NO_FATAL_FAILURE(expect_equal(two.x, foretoken::e4m3_to_float(static_cast<uint8_t>(low)), low));
    ASSERT_NO_FATAL_FAILURE(expect_equal(two.y, foretoken::e4m3_to_float(static_cast<uint8_t>(high)), high));
  }
}

TEST(HipDecode, EveryPairOfE2m1Codes) {
  for (uint32_t pair = 0; pair < 256; ++pair) {
    const uint32_t low = pair & 0xfU;
    const uint32_t high = pair >> 4;
    const float2 two = decode_lower_e2m1x2(high << 16 | low | (pair * 13U & 0xfffU) << 20 | (pair * 5U & 0xfffU) << 4);
    expect_equal(two.x, e2m1_to_float(static_cast<uint8_t>(low)), low);
    expect_equal(two.y, e2m1_to_float(static_cast<uint8_t>(high)), high);
  }
}

}  // namespace
}  // namespace foretoken::gpu
