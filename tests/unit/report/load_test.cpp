// What a load asks for and when, as its seed decides.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "apps/foretoken/serve_load.h"

namespace foretoken::cli {
namespace {

using ::testing::DoubleNear;
using ::testing::Each;
using ::testing::ElementsAre;

TEST(ArrivalSchedule, IsDecidedByTheSeed) {
  EXPECT_EQ(arrival_schedule(50, 3.0, 7), arrival_schedule(50, 3.0, 7));
  EXPECT_NE(arrival_schedule(50, 3.0, 7), arrival_schedule(50, 3.0, 8));
  // Written down, so that it stays the same on every platform and in every version.
  EXPECT_THAT(arrival_schedule(3, 1.0, 1),
              ElementsAre(DoubleNear(0.2492231662787787, 1e-12), DoubleNear(3.0839350974546154, 1e-12),
                          DoubleNear(3.4207911529944153, 1e-12)));
}

TEST(ArrivalSchedule, HasTheSameGapsAtEveryRateButForTheirScale) {
  const std::vector<double> slow = arrival_schedule(100, 0.5, 3);
  const std::vector<double> fast = arrival_schedule(100, 20.0, 3);
  for (size_t i = 0; i < slow.size(); ++i) EXPECT_NEAR(slow[i], fast[i] * 40.0, 1e-9 * slow[i]);
  EXPECT_THAT(arrival_schedule(10, std::numeric_limits<double>::infinity(), 3), Each(0.0));
}

TEST(ArrivalSchedule, IsAPoissonProcess) {
  constexpr size_t kCount = 100'000;
  const std::vector<double> arrivals = arrival_schedule(kCount, 8.0, 11);
  EXPECT_TRUE(std::ranges::is_sorted(arrivals));
  EXPECT_NEAR(static_cast<double>(kCount) / arrivals.back(), 8.0, 8.0 * 4.0 / std::sqrt(kCount));
  // Gaps longer than the mean one: exp(-1) of them.
  size_t longer = arrivals.front() > 1.0 / 8.0 ? 1 : 0;
  for (size_t i = 1; i < kCount; ++i) longer += arrivals[i] - arrivals[i - 1] > 1.0 / 8.0 ? 1 : 0;
  EXPECT_NEAR(static_cast<double>(longer) / kCount, std::exp(-1.0), 4.0 * 0.482 / std::sqrt(kCount));
}

TEST(RandomPrompts, StayInTheirRanges) {
  const auto prompts = random_prompts(400, {.min = 3, .max = 6}, 10, 5);
  EXPECT_EQ(prompts, random_prompts(400, {.min = 3, .max = 6}, 10, 5));
  std::vector<size_t> lengths;
  std::vector<int32_t> ids;
  for (const std::vector<int32_t>& prompt : prompts) {
    lengths.push_back(prompt.size());
    ids.insert(ids.end(), prompt.begin(), prompt.end());
  }
  EXPECT_EQ(std::ranges::min(lengths), 3U);
  EXPECT_EQ(std::ranges::max(lengths), 6U);
  EXPECT_EQ(std::ranges::min(ids), 0);
  EXPECT_EQ(std::ranges::max(ids), 9);
}

TEST(MakeLoad, TakesPromptsInTurn) {
  const ServeLoad load = make_load({{1, 2, 3}, {4}}, 5, {.min = 2, .max = 9}, 1);
  std::vector<size_t> prompts;
  for (const LoadRequest& request : load.requests) {
    prompts.push_back(request.prompt_idx);
    EXPECT_GE(request.max_tokens, 2);
    EXPECT_LE(request.max_tokens, 9);
    EXPECT_LE(request.max_tokens, load.max_tokens());
  }
  EXPECT_THAT(prompts, ElementsAre(0, 1, 0, 1, 0));
  EXPECT_EQ(load.prompt_tokens(), 11);
  EXPECT_EQ(load.max_prompt_tokens(), 3);
}

TEST(MakeLoad, DrawsTheSameTextLengthsWhateverThePrompts) {
  const ServeLoad one = make_load({{1}}, 20, {.min = 1, .max = 100}, 4);
  const ServeLoad other = make_load({{1, 2}, {3}}, 20, {.min = 1, .max = 100}, 4);
  for (size_t i = 0; i < one.requests.size(); ++i) EXPECT_EQ(one.requests[i].max_tokens, other.requests[i].max_tokens);
}

}  // namespace
}  // namespace foretoken::cli
