// Parameters out of range are errors that name them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "core/error.h"
#include "speculative/sampling_params.h"

namespace foretoken::test {
namespace {

using testing::HasSubstr;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::string refusal_of(const std::function<void(SamplingParams&)>& change) {
  SamplingParams params;
  change(params);
  try {
    validate(params, 100);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return error.what();
  }
  return "";
}

TEST(SamplingParams, DefaultsAreGreedyAndValid) {
  EXPECT_EQ(refusal_of([](SamplingParams&) {}), "");
  EXPECT_TRUE(is_plain_greedy({}));
}

TEST(SamplingParams, RangesIncludeTheirEnds) {
  EXPECT_EQ(refusal_of([](SamplingParams& p) {
              p.temperature = SamplingParams::kMinTemperature;
              p.top_k = 1000000;
              p.top_p = 1e-6F;
              p.min_p = 1.0F;
              p.repetition_penalty = 100.0F;
              p.presence_penalty = -100.0F;
              p.frequency_penalty = 100.0F;
              p.logit_bias = {{0, -kInfinity}, {99, 100.0F}};
              p.stop_token_ids = {0, 99};
              p.min_tokens = 7;
            }),
            "");
}

TEST(SamplingParams, EveryOneOutOfRangeIsNamed) {
  const float nan = std::nanf("");
  for (const float bad : {-0.1F, 1e-4F, 101.0F, kInfinity, nan}) {
    EXPECT_THAT(refusal_of([=](SamplingParams& p) { p.temperature = bad; }), HasSubstr("temperature")) << bad;
  }
  EXPECT_THAT(refusal_of([](SamplingParams& p) { p.top_k = -1; }), HasSubstr("top_k"));
  for (const float bad : {0.0F, -1.0F, 1.01F, nan}) {
    EXPECT_THAT(refusal_of([=](SamplingParams& p) { p.top_p = bad; }), HasSubstr("top_p")) << bad;
  }
  for (const float bad : {-0.01F, 1.01F, nan}) {
    EXPECT_THAT(refusal_of([=](SamplingParams& p) { p.min_p = bad; }), HasSubstr("min_p")) << bad;
  }
  for (const float bad : {0.0F, -1.0F, 100.5F, nan}) {
    EXPECT_THAT(refusal_of([=](SamplingParams& p) { p.repetition_penalty = bad; }), HasSubstr("repetition_penalty")) << bad;
  }
  for (const float bad : {-100.5F, 100.5F, kInfinity, nan}) {
    EXPECT_THAT(refusal_of([=](SamplingParams& p) { p.presence_penalty = bad; }), HasSubstr("presence_penalty")) << bad;
    EXPECT_THAT(refusal_of([=](SamplingParams& p) { p.frequency_penalty = bad; }), HasSubstr("frequency_penalty")) << bad;
  }
  EXPECT_THAT(refusal_of([](SamplingParams& p) { p.logit_bias = {{100, 1.0F}}; }), HasSubstr("logit_bias"));
  EXPECT_THAT(refusal_of([](SamplingParams& p) { p.logit_bias = {{-1, 1.0F}}; }), HasSubstr("logit_bias"));
  EXPECT_THAT(refusal_of([=](SamplingParams& p) { p.logit_bias = {{5, nan}}; }), HasSubstr("logit_bias"));
  EXPECT_THAT(refusal_of([](SamplingParams& p) { p.logit_bias = {{5, kInfinity}}; }), HasSubstr("logit_bias"));
  EXPECT_THAT(refusal_of([](SamplingParams& p) { p.min_tokens = -1; }), HasSubstr("min_tokens"));
  EXPECT_THAT(refusal_of([](SamplingParams& p) { p.stop_token_ids = {100}; }), HasSubstr("stop_token_ids"));
}

TEST(SamplingParams, WhatChangesPicksNeedsASampler) {
  const auto is_plain = [](const std::function<void(SamplingParams&)>& change) {
    SamplingParams params;
    change(params);
    return is_plain_greedy(params);
  };
  EXPECT_FALSE(is_plain([](SamplingParams& p) { p.temperature = 1.0F; }));
  EXPECT_FALSE(is_plain([](SamplingParams& p) { p.repetition_penalty = 1.1F; }));
  EXPECT_FALSE(is_plain([](SamplingParams& p) { p.presence_penalty = 0.1F; }));
  EXPECT_FALSE(is_plain([](SamplingParams& p) { p.frequency_penalty = 0.1F; }));
  EXPECT_FALSE(is_plain([](SamplingParams& p) { p.logit_bias = {{1, 1.0F}}; }));
  EXPECT_FALSE(is_plain([](SamplingParams& p) {
    p.min_tokens = 2;
    p.stop_token_ids = {1};
  }));
  EXPECT_FALSE(is_plain([](SamplingParams& p) { p.token_mask = [](auto, auto) { return false; }; }));
  EXPECT_TRUE(is_plain([](SamplingParams& p) {
    p.top_k = 5;
    p.top_p = 0.5F;
    p.stop_token_ids = {1};
  }));
}

}  // namespace
}  // namespace foretoken::test
