#include "core/op_case.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "core/error.h"

namespace foretoken {
namespace {

std::vector<double> drawn(const Fill& fill, size_t count, uint64_t seed = 3) {
  std::mt19937_64 generator(seed);
  std::vector<double> values(count, std::nan(""));
  fill(generator, values);
  return values;
}

TEST(Fill, StaysInItsRange) {
  for (const double value : drawn(fill::uniform(-2.0, 3.0), 1000)) EXPECT_TRUE(value >= -2.0 && value < 3.0);
  bool low = false;
  bool high = false;
  for (const double value : drawn(fill::integers(-1, 2), 1000)) {
    EXPECT_EQ(value, std::round(value));
    EXPECT_TRUE(value >= -1.0 && value <= 2.0);
    low |= value == -1.0;
    high |= value == 2.0;
  }
  EXPECT_TRUE(low && high);
}

TEST(Fill, NormalHasItsSpread) {
  const std::vector<double> values = drawn(fill::normal(2.0), 20000);
  const double square = std::inner_product(values.begin(), values.end(), values.begin(), 0.0) / 20000.0;
  EXPECT_NEAR(std::sqrt(square), 2.0, 0.05);
  EXPECT_NEAR(std::accumulate(values.begin(), values.end(), 0.0) / 20000.0, 0.0, 0.05);
}

TEST(Fill, FollowsFromTheSeed) {
  EXPECT_EQ(drawn(fill::normal(1.0), 10, 5), drawn(fill::normal(1.0), 10, 5));
  EXPECT_NE(drawn(fill::normal(1.0), 10, 5), drawn(fill::normal(1.0), 10, 6));
  EXPECT_EQ(drawn(fill::constant(4.0), 3), (std::vector<double>{4.0, 4.0, 4.0}));
}

TEST(Fill, ListsMustFit) {
  EXPECT_EQ(drawn(fill::values({1.0, 2.0}), 2), (std::vector<double>{1.0, 2.0}));
  EXPECT_THROW((void)drawn(fill::values({1.0, 2.0}), 3), Error);
}

}  // namespace
}  // namespace foretoken
