// Whatever verifies the drafts, the text has the distribution of plain sampling: first and second tokens of 200,000 sequences
// against the exact probabilities.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/sampling/toy_model.h"

namespace foretoken::test {
namespace {

constexpr double kFarOff = 4.5;  // standard deviations of a chi-square statistic

struct Setting {
  const char* name;
  SamplingParams params;
  int64_t num_candidates = 16;
  double noise = 1.0;
};

SamplingParams at_temperature(float temperature) {
  SamplingParams params;
  params.temperature = temperature;
  params.seed = 20240310;
  return params;
}

Setting penalised() {
  SamplingParams params = at_temperature(0.8F);
  params.repetition_penalty = 1.5F;
  params.presence_penalty = 0.6F;
  params.frequency_penalty = 0.4F;
  return {.name = "penalties", .params = params};
}

Setting cut_off() {
  SamplingParams params = at_temperature(0.9F);
  params.top_k = 12;
  params.top_p = 0.85F;
  params.min_p = 0.02F;
  return {.name = "top_p", .params = params};
}

const Setting kPlainSetting{.name = "temperature_1", .params = at_temperature(1.0F)};
const Setting kFewCandidates{.name = "few_candidates", .params = at_temperature(1.2F), .num_candidates = 5};
const Setting kGoodDrafter{.name = "good_drafter", .params = at_temperature(0.7F), .noise = 0.2};

/// Of (first token, second token).
std::vector<double> exact_pairs(const ToyModel& model, const ToyRun& run) {
  std::vector<double> pairs;
  const std::vector<double> first = exact_distribution(model.target({}), run.params, {.prompt = run.prompt});
  for (int32_t a = 0; a < ToyModel::kVocab; ++a) {
    const std::vector<int32_t> output{a};
    const std::vector<double> second =
        exact_distribution(model.target(output), run.params, {.prompt = run.prompt, .output = output});
    for (const double p : second) pairs.push_back(first[static_cast<size_t>(a)] * p);
  }
  return pairs;
}

struct Tested {
  Setting setting;
  DraftSampling sampling;
  int64_t num_drafts;
};

class Distribution : public testing::TestWithParam<Tested> {};

TEST_P(Distribution, OfFirstAndSecondTokensIsThatOfPlainSampling) {
  const Tested& tested = GetParam();
  TestDevice device;
  const ToyModel model(7, tested.setting.noise);
  ToyRun run{.params = tested.setting.params, .num_drafts = tested.num_drafts, .num_candidates = tested.setting.num_candidates};
  run.params.draft_sampling = tested.sampling;
  const ToyResult result = generate(device, model, run);
  std::vector<int64_t> counts(ToyModel::kVocab * ToyModel::kVocab);
  for (const auto& output : result.outputs) ++counts[static_cast<size_t>(output[0] * ToyModel::kVocab + output[1])];
  EXPECT_LT(chi_square_deviations(counts, exact_pairs(model, run)), kFarOff);
  if (tested.num_drafts > 0) {
    EXPECT_GT(result.mean_first_accepted(), 0.1) << "nothing was verified";
  }
}

const char* name_of(DraftSampling sampling) {
  switch (sampling) {
    case DraftSampling::kGreedy: return "greedy";
    case DraftSampling::kRejection: return "rejection";
    case DraftSampling::kBlock: return "block";
  }
  return "";
}

INSTANTIATE_TEST_SUITE_P(
    All, Distribution,
    testing::Values(Tested{kPlainSetting, DraftSampling::kGreedy, 0},  //
                    Tested{kPlainSetting, DraftSampling::kGreedy, 2}, Tested{kPlainSetting, DraftSampling::kRejection, 2},
                    Tested{kPlainSetting, DraftSampling::kBlock, 2},  //
                    Tested{kGoodDrafter, DraftSampling::kBlock, 3}, Tested{kFewCandidates, DraftSampling::kRejection, 2},
                    Tested{kFewCandidates, DraftSampling::kBlock, 3},  //
                    Tested{penalised(), DraftSampling::kGreedy, 0},    //
                    Tested{penalised(), DraftSampling::kGreedy, 2}, Tested{penalised(), DraftSampling::kRejection, 2},
                    Tested{penalised(), DraftSampling::kBlock, 2},  //
                    Tested{cut_off(), DraftSampling::kGreedy, 0},   //
                    Tested{cut_off(), DraftSampling::kRejection, 2}, Tested{cut_off(), DraftSampling::kBlock, 2}),
    [](const auto& instance) {
      return std::string(instance.param.setting.name) + "_" + name_of(instance.param.sampling) + "_" +
             std::to_string(instance.param.num_drafts);
    });

TEST(Verification, GreedyDraftsGiveThePlainTextOfTheSeed) {
  TestDevice device;
  const ToyModel model(3, 0.5);
  ToyRun run{.params = cut_off().params, .num_sequences = 3000, .num_tokens = 8};
  run.params.draft_sampling = DraftSampling::kGreedy;
  const ToyResult plain = generate(device, model, run);
  for (const int64_t num_drafts : {1, 3, 7}) {
    run.num_drafts = num_drafts;
    const ToyResult drafted = generate(device, model, run);
    for (size_t i = 0; i < plain.outputs.size(); ++i) {
      const auto text = std::span(drafted.outputs[i]).first(plain.outputs[i].size());
      ASSERT_TRUE(std::ranges::equal(text, plain.outputs[i])) << "sequence " << i << ", " << num_drafts << " drafts";
    }
  }
}

TEST(Verification, BlocksAcceptAtLeastAsMuchAsRejectionOnTheSameDraws) {
  TestDevice device;
  for (const double noise : {0.3, 1.0, 2.0}) {
    const ToyModel model(11, noise);
    ToyRun run{.params = at_temperature(1.0F), .num_sequences = 50000, .num_drafts = 4, .num_tokens = 1};
    run.params.draft_sampling = DraftSampling::kRejection;
    const double rejection = generate(device, model, run).mean_first_accepted();
    run.params.draft_sampling = DraftSampling::kBlock;
    const double block = generate(device, model, run).mean_first_accepted();
    EXPECT_GT(block, rejection) << "noise " << noise;
  }
}

TEST(Verification, AcceptsAsOftenAsTheDistributionsOverlap) {
  TestDevice device;
  const ToyModel model(5, 1.0);
  ToyRun run{.params = at_temperature(1.0F), .num_sequences = 100000, .num_drafts = 1, .num_tokens = 1};
  const std::vector<double> p = exact_distribution(model.target({}), run.params, {});
  const std::vector<double> q = exact_distribution(model.drafter({}), run.params, {});
  double overlap = 0.0;
  for (size_t v = 0; v < p.size(); ++v) overlap += std::min(p[v], q[v]);
  const double deviation = std::sqrt(overlap * (1.0 - overlap) / 100000.0);
  for (const DraftSampling sampling : {DraftSampling::kRejection, DraftSampling::kBlock}) {  // the same rule for one draft
    run.params.draft_sampling = sampling;
    EXPECT_NEAR(generate(device, model, run).mean_first_accepted(), overlap, 4.0 * deviation);
  }
}

TEST(Verification, ADrafterLikeTheTargetIsAlwaysRight) {
  TestDevice device;
  const ToyModel model(5, 0.0);
  ToyRun run{.params = penalised().params, .num_sequences = 20000, .num_drafts = 3, .num_tokens = 1};
  for (const DraftSampling sampling : {DraftSampling::kRejection, DraftSampling::kBlock}) {
    run.params.draft_sampling = sampling;
    EXPECT_EQ(generate(device, model, run).mean_first_accepted(), 3.0);
  }
}

}  // namespace
}  // namespace foretoken::test
