#include "speculative/round_costs.h"

#include <gtest/gtest.h>

namespace foretoken {
namespace {

using Estimate = RoundCosts::Estimate;

TEST(CostCurve, DrawsLinesThroughItsPoints) {
  CostCurve curve;
  EXPECT_EQ(curve.at(3.0), 0.0);
  curve.observe(1.0, 10.0);
  EXPECT_EQ(curve.at(0.0), 10.0);
  EXPECT_EQ(curve.at(5.0), 10.0);
  curve.observe(3.0, 20.0);
  curve.observe(4.0, 40.0);
  EXPECT_EQ(curve.at(0.0), 10.0);
  EXPECT_EQ(curve.at(2.0), 15.0);
  EXPECT_EQ(curve.at(3.5), 30.0);
  EXPECT_EQ(curve.at(7.0), 70.0);
  EXPECT_EQ(curve.last(), 4);
}

TEST(CostCurve, NeverFallsBeyondItsLastPoint) {
  CostCurve curve;
  curve.observe(1.0, 20.0);
  curve.observe(2.0, 18.0);
  EXPECT_EQ(curve.at(9.0), 18.0);
}

TEST(CostCurve, TakesTheMedianOfTheLastSamples) {
  CostCurve curve;
  curve.observe(2.0, 400.0);
  curve.observe(2.0, 100.0);
  EXPECT_EQ(curve.at(2.0), 100.0);
  for (const double us : {102.0, 900.0, 101.0}) curve.observe(2.0, us);
  EXPECT_EQ(curve.at(2.0), 102.0);
  for (int i = 0; i < 8; ++i) curve.observe(2.0, 50.0);
  EXPECT_EQ(curve.at(2.0), 50.0);
}

TEST(CostCurve, TrustsASingleSampleByHalf) {
  CostCurve curve;
  curve.observe(0.0, 10.0);
  curve.observe(0.0, 10.0);
  curve.observe(4.0, 60.0);
  EXPECT_EQ(curve.floor_at(3.0, 2), 10.0);
  EXPECT_EQ(curve.floor_at(4.0, 2), 30.0);
  curve.observe(4.0, 60.0);
  EXPECT_EQ(curve.floor_at(9.0, 2), 60.0);
}

TEST(RoundCosts, KeepsDraftsApartFromTheRest) {
  RoundCosts costs;
  EXPECT_EQ(costs.round_us(1, 3, 3), 0.0);
  costs.observe(1, 0, 0, {.verify_us = 100.0, .host_us = 5.0});
  costs.observe(1, 2, 2, {.draft_us = 30.0, .verify_us = 120.0, .host_us = 5.0});
  EXPECT_EQ(costs.plain_us(1), 105.0);
  EXPECT_EQ(costs.draft_us(1, 1, Estimate::kLikely), 15.0);
  EXPECT_EQ(costs.draft_us(1, 4, Estimate::kLikely), 60.0);
  EXPECT_EQ(costs.rest_us(1, 1, Estimate::kLikely), 115.0);
  EXPECT_EQ(costs.round_us(1, 2, 2), 155.0);
  EXPECT_EQ(costs.deepest(1), 2);
  EXPECT_FALSE(costs.is_proven(1, 2));
}

TEST(RoundCosts, CountsRowsPerSequence) {
  RoundCosts costs;
  costs.observe(8, 0, 0, {.verify_us = 100.0});
  costs.observe(8, 3, 16, {.draft_us = 30.0, .verify_us = 140.0});
  EXPECT_EQ(costs.rest_us(8, 8, Estimate::kLikely), 120.0);
  EXPECT_EQ(costs.rest_us(6, 6, Estimate::kLikely), 120.0) << "6 sequences run as 8 do";
  EXPECT_GT(costs.rest_us(8, 1, Estimate::kLikely), costs.plain_us(8)) << "one draft among eight is not none";
}

TEST(RoundCosts, ALastingChangeIsOneOfAllDepths) {
  RoundCosts costs;
  for (int i = 0; i < 3; ++i) {
    costs.learn(1, 0, 0, {.verify_us = 100.0});
    costs.learn(1, 1, 1, {.draft_us = 20.0, .verify_us = 130.0});
  }
  for (int i = 0; i < 40; ++i) costs.observe(1, 1, 1, {.draft_us = 40.0, .verify_us = 260.0});
  EXPECT_EQ(costs.plain_us(1), 100.0);
  EXPECT_NEAR(costs.round_us(1, 1, 1), 150.0, 1.0);
}

TEST(RoundCosts, AChangeOfOneDepthIsItsOwn) {
  RoundCosts costs;
  for (int i = 0; i < 3; ++i) {
    costs.learn(1, 0, 0, {.verify_us = 100.0});
    costs.learn(1, 1, 1, {.draft_us = 20.0, .verify_us = 130.0});
  }
  for (int i = 0; i < 40; ++i) {
    for (int j = 0; j < 4; ++j) costs.observe(1, 0, 0, {.verify_us = 100.0});
    costs.observe(1, 1, 1, {.draft_us = 20.0, .verify_us = 210.0});
    costs.observe(1, 1, 1, {.draft_us = 20.0, .verify_us = 170.0});
  }
  EXPECT_EQ(costs.plain_us(1), 100.0);
  EXPECT_EQ(costs.round_us(1, 1, 1), 190.0);
}

TEST(RoundCosts, NearestNumberOfSequencesStandsIn) {
  RoundCosts costs;
  costs.observe(1, 1, 1, {.draft_us = 1.0, .verify_us = 10.0});
  costs.observe(16, 1, 16, {.draft_us = 9.0, .verify_us = 90.0});
  EXPECT_EQ(costs.draft_us(2, 1, Estimate::kLikely), 1.0);
  EXPECT_EQ(costs.draft_us(40, 1, Estimate::kLikely), 9.0);
  EXPECT_EQ(costs.num_plain_samples(2), 0U);
}

}  // namespace
}  // namespace foretoken
