// Figures of runs whose times and counts are made up, so that each can be worked out by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/foretoken/serve_figures.h"

namespace foretoken::cli {
namespace {

using ::testing::DoubleEq;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

ServedRequest request(double arrival_s, std::vector<TokenBurst> bursts) {
  ServedRequest made{.arrival_s = arrival_s, .bursts = std::move(bursts)};
  for (const TokenBurst& burst : made.bursts) {
    made.result.output_token_ids.resize(made.result.output_token_ids.size() + static_cast<size_t>(burst.num_tokens));
  }
  return made;
}

TEST(Percentiles, AreThoseOfAKnownSample) {
  Latencies latencies;
  for (int i = 0; i <= 100; ++i) latencies.sorted_ms.push_back(2.0 * i);
  EXPECT_DOUBLE_EQ(latencies.percentile(50), 100.0);
  EXPECT_DOUBLE_EQ(latencies.percentile(90), 180.0);
  EXPECT_DOUBLE_EQ(latencies.percentile(99), 198.0);
  EXPECT_DOUBLE_EQ(latencies.percentile(100), 200.0);
  EXPECT_DOUBLE_EQ(latencies.mean(), 100.0);
  EXPECT_DOUBLE_EQ(Latencies{.sorted_ms = {7.0}}.percentile(99), 7.0);
  EXPECT_DOUBLE_EQ(Latencies{}.percentile(50), 0.0);
  EXPECT_DOUBLE_EQ(Latencies{}.mean(), 0.0);
}

TEST(ServeFigures, CountLatenciesFromTheScheduledArrival) {
  const ServeRun run{.requests = {request(1.0, {{1.5, 1}, {1.7, 2}, {1.8, 1}}), request(2.0, {{5.0, 1}})}, .steps = {}};
  const ServeFigures figures = serve_figures(run);
  EXPECT_DOUBLE_EQ(figures.seconds, 4.0);
  EXPECT_EQ(figures.output_tokens, 5);
  EXPECT_DOUBLE_EQ(figures.output_tokens_per_second, 1.25);
  EXPECT_DOUBLE_EQ(figures.requests_per_second, 0.5);
  EXPECT_THAT(figures.time_to_first_token.sorted_ms, ElementsAre(DoubleNear(500, 1e-6), DoubleNear(3000, 1e-6)));
  EXPECT_THAT(figures.end_to_end.sorted_ms, ElementsAre(DoubleNear(800, 1e-6), DoubleNear(3000, 1e-6)));
  // 200 ms for two tokens, 100 ms for one.
  EXPECT_THAT(figures.inter_token.sorted_ms, ElementsAre(DoubleNear(100, 1e-6), DoubleNear(100, 1e-6), DoubleNear(100, 1e-6)));
  EXPECT_THAT(figures.tokens_per_round, ElementsAre(1, 1));
  EXPECT_DOUBLE_EQ(figures.mean_tokens_per_round, 1.5);
}

// Field report 25: much acceptance, little speed, and no word of where the time went.
TEST(ServeFigures, SplitTheTime) {
  const ServeRun run{
      .requests = {request(0.0, {{0.1, 1}, {1.0, 1}})},
      .steps = {{.begin_s = 0.0, .end_s = 0.1, .did_prefill = true},
                {.begin_s = 0.1, .end_s = 0.2, .draft_ms = 20, .verify_ms = 50, .sequences = {{3, 1}}},
                {.begin_s = 0.9, .end_s = 1.0, .draft_ms = 10, .verify_ms = 60, .did_prefill = true, .sequences = {{3, 3}}}}};
  const TimeSplit& time = serve_figures(run).time;
  EXPECT_DOUBLE_EQ(time.draft_ms, 30.0);
  EXPECT_DOUBLE_EQ(time.verify_ms, 110.0);
  EXPECT_NEAR(time.host_ms, 30.0, 1e-9);
  EXPECT_NEAR(time.prefill_ms, 130.0, 1e-9);
  EXPECT_NEAR(time.idle_ms, 700.0, 1e-9);
}

TEST(ServeFigures, ShareAcceptanceAmongTheRoundsThatReachedAPosition) {
  const ServeRun run{.requests = {request(0.0, {{0.1, 1}})},
                     .steps = {{.sequences = {{3, 3}, {1, 0}}}, {.sequences = {{3, 1}, {0, 0}, {2, 2}}}, {.sequences = {}}}};
  const ServeFigures figures = serve_figures(run);
  EXPECT_THAT(figures.acceptance_by_position, ElementsAre(DoubleEq(3.0 / 4), DoubleEq(2.0 / 3), DoubleEq(1.0 / 2)));
  EXPECT_EQ(figures.rounds, 2);
  EXPECT_EQ(figures.max_sequences, 3);
  EXPECT_DOUBLE_EQ(figures.mean_sequences, 2.5);
}

TEST(ServeFigures, FollowDepthThroughTheRun) {
  ServeRun run{.requests = {request(10.0, {{70.0, 1}})}, .steps = {}};
  run.steps.push_back({.begin_s = 10.1, .end_s = 10.2, .sequences = {{4, 0}, {2, 0}}});
  run.steps.push_back({.begin_s = 10.3, .end_s = 10.4, .sequences = {{0, 0}}});
  run.steps.push_back({.begin_s = 70.0, .end_s = 70.1, .sequences = {{1, 1}}});
  const std::vector<TimelinePoint> timeline = serve_figures(run).timeline;
  ASSERT_EQ(timeline.size(), 2U) << "stretches without a round are left out";
  EXPECT_DOUBLE_EQ(timeline[0].time_s, 0.5);
  EXPECT_DOUBLE_EQ(timeline[0].mean_depth, 2.0);
  EXPECT_DOUBLE_EQ(timeline[0].mean_sequences, 1.5);
  EXPECT_DOUBLE_EQ(timeline[1].time_s, 59.5);
  EXPECT_DOUBLE_EQ(timeline[1].mean_depth, 1.0);
}

TEST(ServeFigures, TakeARunOfOneTokenEach) {
  const ServeFigures figures = serve_figures({.requests = {request(0.0, {{0.0, 1}})}, .steps = {}});
  EXPECT_DOUBLE_EQ(figures.output_tokens_per_second, 0.0);
  EXPECT_DOUBLE_EQ(figures.mean_tokens_per_round, 0.0);
  EXPECT_THAT(figures.tokens_per_round, IsEmpty());
  EXPECT_THAT(figures.acceptance_by_position, IsEmpty());
}

}  // namespace
}  // namespace foretoken::cli
