// What becomes of a row of logits: every parameter, in its order, against float64.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/unit/sampling/exact_distribution.h"
#include "tests/unit/sampling/sampler_harness.h"

namespace foretoken::test {
namespace {

SamplerOptions options_of(int64_t vocab_size) {
  return {.vocab_size = vocab_size, .max_sequences = 2, .max_rows = 8, .max_drafts = 7, .max_logit_biases = 8, .max_stop_ids = 4};
}

/// Probabilities that a processed row stands for.
std::vector<double> distribution_of(const std::vector<float>& row, float temperature) {
  std::vector<double> p(row.size());
  if (temperature == 0.0F) {
    p[static_cast<size_t>(std::ranges::max_element(row) - row.begin())] = 1.0;
    return p;
  }
  double sum = 0.0;
  for (const float x : row) sum += static_cast<double>(sampling_weight(x));
  for (size_t v = 0; v < row.size(); ++v) p[v] = static_cast<double>(sampling_weight(row[v])) / sum;
  return p;
}

/// The first row's probabilities for one sequence with this history.
std::vector<double> sampled_distribution(SamplerHarness& harness, const SamplingParams& params, const TokenHistory& history,
                                         const std::vector<float>& logits) {
  harness.join(0, params, history.prompt, history.output);
  const auto position = static_cast<int64_t>(history.prompt.size() + history.output.size()) - 1;
  const SampledStep step = harness.step({{.slot = 0, .first_position = position, .logits = {logits}}});
  harness.sampler().leave(0);
  return distribution_of(step.processed[0], params.temperature);
}

SamplingParams random_params(std::mt19937_64& generator, int64_t vocab_size) {
  const auto one_of = [&generator](std::initializer_list<float> values) { return values.begin()[generator() % values.size()]; };
  const auto id = [&] { return static_cast<int32_t>(generator() % static_cast<uint64_t>(vocab_size)); };
  SamplingParams params;
  params.temperature = one_of({0.0F, 0.3F, 0.7F, 1.0F, 1.6F});
  params.top_k = static_cast<int32_t>(one_of({0.0F, 1.0F, 5.0F, 40.0F, 1000.0F}));
  params.top_p = one_of({1.0F, 0.97F, 0.83F, 0.4F});
  params.min_p = one_of({0.0F, 0.013F, 0.21F});
  params.repetition_penalty = one_of({1.0F, 1.3F, 0.8F});
  params.presence_penalty = one_of({0.0F, 0.7F, -0.4F});
  params.frequency_penalty = one_of({0.0F, 0.35F, -0.15F});
  for (uint64_t i = generator() % 5; i > 0; --i) params.logit_bias[id()] = one_of({-3.0F, 2.5F, -INFINITY});
  if (generator() % 2 == 0) {
    params.min_tokens = static_cast<int64_t>(generator() % 12);
    params.stop_token_ids = {id(), id()};
  }
  params.seed = generator();
  return params;
}

TEST(Pipeline, AgreesWithFloat64ForRandomParameters) {
  for (const int64_t vocab_size : {16, 333}) {
    SamplerHarness harness(options_of(vocab_size));
    std::mt19937_64 generator(static_cast<uint64_t>(vocab_size));
    for (int repeat = 0; repeat < 400; ++repeat) {
      const SamplingParams params = random_params(generator, vocab_size);
      TokenHistory history{.prompt = {1}};
      for (uint64_t i = generator() % 8; i > 0; --i) history.prompt.push_back(static_cast<int32_t>(generator() % 16));
      for (uint64_t i = generator() % 10; i > 0; --i) history.output.push_back(static_cast<int32_t>(generator() % 16));
      const std::vector<float> logits = harness.random_row(generator());
      const std::vector<double> expected = exact_distribution(logits, params, history);
      const std::vector<double> got = sampled_distribution(harness, params, history, logits);
      for (size_t v = 0; v < got.size(); ++v) ASSERT_NEAR(got[v], expected[v], 1e-5) << "repeat " << repeat << ", token " << v;
    }
  }
}

TEST(Pipeline, BiasesComeBeforePenalties) {
  SamplerHarness harness(options_of(16));
  SamplingParams params{.repetition_penalty = 2.0F, .logit_bias = {{3, -2.0F}}};
  harness.join(0, params, {3, 4});
  std::vector<float> logits(16, -9.0F);
  logits[3] = 1.0F;  // 1 - 2 is below 0, so the penalty doubles it
  logits[4] = 1.0F;
  const SampledStep step = harness.step({{.slot = 0, .first_position = 1, .logits = {logits}}});
  EXPECT_EQ(step.processed[0][3], -2.0F);
  EXPECT_EQ(step.processed[0][4], 0.5F);
}

TEST(Pipeline, TemperatureComesBeforeTheCuts) {
  SamplerHarness harness(options_of(16));
  std::vector<float> logits(16, -30.0F);
  logits[0] = 1.0F;
  logits[1] = 0.0F;
  const TokenHistory history{.prompt = {2}};
  // e / (e + 1) = 0.73 at temperature 1; at 0.25 the first has 0.98 alone.
  const auto second = [&](float temperature) {
    return sampled_distribution(harness, {.temperature = temperature, .top_p = 0.9F}, history, logits)[1];
  };
  EXPECT_GT(second(1.0F), 0.2);
  EXPECT_EQ(second(0.25F), 0.0);
}

TEST(Pipeline, TopPMeasuresWhatTopKLeft) {
  SamplerHarness harness(options_of(16));
  std::vector<float> logits(16, 0.0F);
  const TokenHistory history{.prompt = {2}};
  // Of four equal ones, 0.5 keeps two; of all sixteen it would keep eight.
  const std::vector<double> p = sampled_distribution(harness, {.temperature = 1.0F, .top_k = 4, .top_p = 0.5F}, history, logits);
  EXPECT_EQ(std::ranges::count_if(p, [](double one) { return one > 0.0; }), 2);
  EXPECT_EQ(p[0], 0.5);
  EXPECT_EQ(p[1], 0.5);  // equal ones stay by rising id
}

TEST(Pipeline, MinPMeasuresAgainstTheBest) {
  SamplerHarness harness(options_of(16));
  std::vector<float> logits(16, -20.0F);
  logits[5] = 0.0F;
  logits[6] = std::log(0.11F);
  logits[7] = std::log(0.09F);
  const std::vector<double> p = sampled_distribution(harness, {.temperature = 1.0F, .min_p = 0.1F}, {.prompt = {2}}, logits);
  EXPECT_GT(p[6], 0.0);
  EXPECT_EQ(p[7], 0.0);
}

TEST(Pipeline, CutsKeepTheBestTokenWhateverTheyAre) {
  SamplerHarness harness(options_of(100));
  const std::vector<float> logits = harness.random_row(5);
  const auto best = static_cast<size_t>(std::ranges::max_element(logits) - logits.begin());
  const SamplingParams all[] = {
      {.temperature = 2.0F, .top_k = 1}, {.temperature = 2.0F, .top_p = 1e-9F}, {.temperature = 2.0F, .min_p = 1.0F}};
  for (const SamplingParams& params : all) EXPECT_EQ(sampled_distribution(harness, params, {.prompt = {2}}, logits)[best], 1.0);
}

TEST(Pipeline, GreedyTakesTheLowestIdOfTheBestProcessedLogit) {
  SamplerHarness harness(options_of(16));
  std::vector<float> logits(16, 0.0F);
  logits[4] = logits[9] = 5.0F;
  harness.join(0, {.logit_bias = {{11, 5.0F}, {4, -1.0F}}}, {1});
  const SampledStep step =
      harness.step({{.slot = 0, .first_position = 0, .logits = {logits}}, {.slot = -1, .first_position = 0, .logits = {logits}}});
  EXPECT_EQ(step.picks, (std::vector<int32_t>{9, 4}));
  EXPECT_EQ(step.processed[1], logits);  // a row without a slot stays as it is
}

TEST(Pipeline, MinimumTokensForbidStopIdsUntilThen) {
  SamplerHarness harness(options_of(16));
  std::vector<float> logits(16, 0.0F);
  logits[7] = 9.0F;
  logits[2] = 5.0F;
  harness.join(0, {.min_tokens = 3, .stop_token_ids = {7, 8}}, {1, 1, 1, 1});
  // Rows of one block: outputs 0 .. 4. The stop id may come as output 3, the fourth token, in the middle of the block.
  const HarnessPart block{.slot = 0, .first_position = 3, .logits = {5, logits}, .drafts = {2, 2, 2, 7}};
  const SampledStep step = harness.step({block});
  EXPECT_EQ(step.picks, (std::vector<int32_t>{2, 2, 2, 7, 7}));
  EXPECT_EQ(step.num_accepted[0], 4);
}

}  // namespace
}  // namespace foretoken::test
