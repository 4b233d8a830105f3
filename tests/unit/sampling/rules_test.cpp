// Weights and random numbers.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <set>

#include "core/ops/sampling_rules.h"
#include "tests/unit/sampling/exact_distribution.h"

namespace foretoken::test {
namespace {

static_assert(sampling_weight(0.0F) == kLargestWeight);
static_assert(sampling_weight(kLowestWeighted) == 0);

TEST(SamplingWeight, IsTheExponentialTo24Bits) {
  for (int i = 0; i <= 2800000; ++i) {
    const float x = -1e-5F * static_cast<float>(i);
    const double exact = 0x1p40 * std::exp(static_cast<double>(x));
    ASSERT_NEAR(static_cast<double>(sampling_weight(x)), exact, 1.5e-7 * exact + 1.0) << x;
  }
}

TEST(SamplingWeight, HasNoneBelowItsRangeAndTheMostAboveIt) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float x : {-28.0F, -29.0F, -1e30F, -kInfinity, std::nanf("")}) EXPECT_EQ(sampling_weight(x), 0U) << x;
  for (const float x : {-0.0F, 1e-9F, 5.0F, kInfinity}) EXPECT_EQ(sampling_weight(x), kLargestWeight) << x;
}

TEST(ShareOf, IsTheProductRoundedDown) {
  EXPECT_EQ(share_of(uint64_t{1} << 62, 1.0F), uint64_t{1} << 62);
  EXPECT_EQ(share_of(1001, 0.5F), 500U);
  EXPECT_EQ(share_of(uint64_t{3} << 60, 0.25F), uint64_t{3} << 58);
  EXPECT_EQ(share_of(12345, 0.0F), 0U);
  std::mt19937_64 generator(1);
  for (int i = 0; i < 1000; ++i) {
    const uint64_t total = generator() >> 1;
    const auto share = static_cast<float>(static_cast<double>(generator() >> 11) * 0x1p-53);
    EXPECT_NEAR(static_cast<double>(share_of(total, share)), static_cast<double>(total) * static_cast<double>(share), 0x1p32);
  }
}

TEST(MultiplyHigh, IsTheUpperHalfOfTheProduct) {
  std::mt19937_64 generator(2);
  for (int i = 0; i < 10000; ++i) {
    const uint64_t a = generator() >> (generator() % 64);
    const uint64_t b = generator() >> (generator() % 64);
    __extension__ using Wide = unsigned __int128;
    EXPECT_EQ(multiply_high(a, b), static_cast<uint64_t>(static_cast<Wide>(a) * b >> 64));
  }
}

TEST(RandomBits, DifferForWhateverTheyAreFor) {
  std::set<uint64_t> seen;
  size_t count = 0;
  for (uint64_t seed = 0; seed < 12; ++seed) {
    for (int64_t position = 0; position < 300; ++position) {
      for (const auto purpose : {RandomPurpose::kToken, RandomPurpose::kDraft, RandomPurpose::kAccept}) {
        for (uint32_t index = 0; index < 8; ++index, ++count) seen.insert(random_bits(seed, position, purpose, index));
      }
    }
  }
  EXPECT_EQ(seen.size(), count);
}

/// Chi-square of the eight bits from `shift` on along one coordinate.
double byte_deviations(uint32_t shift, const std::function<uint64_t(int64_t)>& bits_of) {
  std::vector<int64_t> counts(256);
  for (int64_t i = 0; i < 100000; ++i) ++counts[bits_of(i) >> shift & 0xffU];
  return chi_square_deviations(counts, std::vector<double>(256, 1.0 / 256.0));
}

TEST(RandomBits, AreUniformAlongSeedsPositionsAndIndices) {
  for (const uint32_t shift : {0U, 11U, 32U, 56U}) {
    EXPECT_LT(std::fabs(byte_deviations(shift, [](int64_t i) { return random_bits(5, i, RandomPurpose::kToken, 0); })), 4.5);
    EXPECT_LT(std::fabs(byte_deviations(
                  shift, [](int64_t i) { return random_bits(static_cast<uint64_t>(i), 9, RandomPurpose::kAccept, 1); })),
              4.5);
    EXPECT_LT(std::fabs(byte_deviations(
                  shift, [](int64_t i) { return random_bits(1, 2, RandomPurpose::kDraft, static_cast<uint32_t>(i)); })),
              4.5);
  }
}

TEST(RandomBits, OfNeighboursAreIndependent) {
  std::vector<int64_t> counts(256);
  for (int64_t i = 0; i < 200000; ++i) {
    const uint64_t a = random_bits(3, i, RandomPurpose::kToken, 0) >> 60;
    const uint64_t b = random_bits(3, i + 1, RandomPurpose::kToken, 0) >> 60;
    ++counts[a * 16 + b];
  }
  EXPECT_LT(std::fabs(chi_square_deviations(counts, std::vector<double>(256, 1.0 / 256.0))), 4.5);
}

TEST(UnitInterval, IsBelowOne) {
  EXPECT_EQ(unit_interval(0), 0.0);
  EXPECT_LT(unit_interval(~uint64_t{0}), 1.0);
  EXPECT_EQ(unit_interval(uint64_t{1} << 63), 0.5);
}

}  // namespace
}  // namespace foretoken::test
