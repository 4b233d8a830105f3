#include "speculative/survival_estimate.h"

#include <gtest/gtest.h>

namespace foretoken {
namespace {

const std::vector<double> kPrior{0.6, 0.6, 0.6, 0.6};

TEST(SurvivalEstimate, StartsFromItsPrior) {
  const SurvivalEstimate estimate(50.0);
  EXPECT_EQ(estimate.conditional(kPrior, 3.0), kPrior);
  EXPECT_EQ(estimate.conditional(0.5, 3.0, 3), (std::vector<double>{0.5, 0.5, 0.5}));
}

TEST(SurvivalEstimate, LearnsEachPosition) {
  SurvivalEstimate estimate(1000.0);
  // Draft 1 holds always, draft 2 every other time, draft 3 is tried after that and never holds.
  for (int i = 0; i < 400; ++i) estimate.observe(3, 1 + i % 2, std::vector<double>{0.9, 0.5, 0.1});
  const std::vector<double> p = estimate.conditional(kPrior, 3.0);
  EXPECT_GT(p[0], 0.98);
  EXPECT_NEAR(p[1], 0.5, 0.02);
  EXPECT_LT(p[2], 0.03);
  EXPECT_EQ(p[3], 0.6) << "never tried";
}

TEST(SurvivalEstimate, PositionsStartFromTheOneBefore) {
  SurvivalEstimate estimate(1000.0);
  for (int i = 0; i < 300; ++i) estimate.observe(1, 1, estimate.conditional(0.5, 4.0, 1));
  const std::vector<double> p = estimate.conditional(0.5, 4.0, 5);
  EXPECT_GT(p[0], 0.98);
  for (size_t j = 1; j < p.size(); ++j) EXPECT_EQ(p[j], p[0]);
}

TEST(SurvivalEstimate, ForgetsWhatIsNotTriedAnyMore) {
  SurvivalEstimate estimate(20.0);
  for (int i = 0; i < 20; ++i) estimate.observe(2, 1, std::vector<double>{0.9, 0.3});
  EXPECT_LT(estimate.conditional(kPrior, 3.0)[1], 0.15);
  for (int i = 0; i < 200; ++i) estimate.observe(1, i % 2, std::vector<double>{0.5});
  EXPECT_NEAR(estimate.conditional(kPrior, 3.0)[1], 0.6, 0.01);
}

TEST(SurvivalEstimate, AStreakThatCannotBeIsAChange) {
  SurvivalEstimate estimate(64.0);
  const auto observe = [&](int64_t accepted) { return estimate.observe(4, accepted, estimate.conditional(kPrior, 3.0)); };
  for (int i = 0; i < 100; ++i) observe(4);
  EXPECT_FALSE(observe(0));
  int until_change = 1;
  while (!observe(0)) ++until_change;
  EXPECT_LE(until_change, 3);
  EXPECT_LT(estimate.conditional(kPrior, 3.0)[0], 0.45);
  for (int i = 0; i < 100; ++i) observe(0);
  until_change = 0;
  while (!observe(4)) ++until_change;
  EXPECT_LE(until_change, 3);
  EXPECT_GT(estimate.conditional(kPrior, 3.0)[0], 0.6);
}

TEST(SurvivalEstimate, APriorThatDidNotForeseeAChangeCountsLess) {
  SurvivalEstimate surprised(1000.0);
  SurvivalEstimate expecting(1000.0);
  const std::vector<double> certain{0.99};
  for (int i = 0; i < 3; ++i) {
    surprised.observe(1, 0, certain);
    expecting.observe(1, 0, std::vector<double>{0.5});
  }
  EXPECT_LT(surprised.conditional(certain, 8.0)[0], expecting.conditional(certain, 8.0)[0] - 0.1);
}

TEST(SurvivalEstimate, ChanceIsNoChange) {
  SurvivalEstimate estimate(64.0);
  int changes = 0;
  for (int i = 0; i < 300; ++i) changes += estimate.observe(1, i % 3 == 0 ? 0 : 1, estimate.conditional(kPrior, 3.0)) ? 1 : 0;
  EXPECT_EQ(changes, 0);
}

TEST(SurvivalEstimate, HopesLessTheMoreItKnows) {
  SurvivalEstimate estimate(1000.0);
  double last = estimate.hopeful_first(0.6, 3.0);
  EXPECT_GT(last, 0.8);
  for (int i = 0; i < 5; ++i) {
    for (int j = 0; j < 20; ++j) estimate.observe(1, j % 2, std::vector<double>{0.5});
    const double now = estimate.hopeful_first(0.6, 3.0);
    EXPECT_LT(now, last);
    EXPECT_GT(now, 0.5);
    last = now;
  }
}

}  // namespace
}  // namespace foretoken
