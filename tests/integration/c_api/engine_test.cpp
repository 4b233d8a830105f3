// The engine of the C API.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "api_session.h"

namespace foretoken::test {
namespace {

class EngineApi : public testing::Test {
 protected:
  [[nodiscard]] Engine load(foretoken_engine_options options = defaults<foretoken_engine_options>()) const {
    const std::string model = bundled("tiny-dense");
    options.model = model.c_str();
    options.max_prompt_tokens = 64;
    options.max_tokens = 64;
    return Engine(device_, options);
  }

  Device device_ = open_test_device();
};

foretoken_request request_for(int64_t max_tokens) {
  auto request = defaults<foretoken_request>();
  request.max_tokens = max_tokens;
  return request;
}

TEST_F(EngineApi, DraftsChangeNoText) {
  const Engine engine = load();
  const auto prompt = engine.tokenize("Explain the word river.", FORETOKEN_TEXT_CHAT);
  foretoken_request plain = request_for(48);
  plain.num_drafts = -1;
  const Result without = engine.generate(prompt, plain);
  const Result with = engine.generate(prompt, request_for(48));
  EXPECT_TRUE(std::ranges::equal(with.token_ids(), without.token_ids()));
  EXPECT_EQ(with.text(), without.text());
  EXPECT_EQ(without.info().drafted, 0);
  EXPECT_GT(with.info().accepted, 0);
}

TEST_F(EngineApi, RequestsRunTogetherAsAlone) {
  auto options = defaults<foretoken_engine_options>();
  options.max_sequences = 3;
  options.depth = "auto";
  const Engine engine = load(options);
  std::vector<int64_t> ids;
  std::vector<std::vector<int32_t>> alone;
  for (int32_t i = 0; i < 5; ++i) {
    const Result result = engine.generate(prompt_of(i, 9), request_for(10 + i));
    alone.emplace_back(result.token_ids().begin(), result.token_ids().end());
  }
  for (int32_t i = 0; i < 5; ++i) ids.push_back(engine.submit(prompt_of(i, 9), request_for(10 + i)));
  while (engine.step()) {
  }
  for (size_t i = 0; i < ids.size(); ++i) {
    ASSERT_TRUE(engine.is_finished(ids[i]));
    EXPECT_THAT(engine.take_result(ids[i]).token_ids(), testing::ElementsAreArray(alone[i]));
  }
  EXPECT_THROW(static_cast<void>(engine.is_finished(ids[0])), Error) << "its result was taken";
  EXPECT_EQ(engine.statistics().active, 0);
}

TEST_F(EngineApi, ACallbackEndsItsRequest) {
  const Engine engine = load();
  int num_calls = 0;
  const Result result =
      engine.generate(engine.tokenize("Explain the word"), request_for(40), [&](std::string_view) { return ++num_calls < 2; });
  EXPECT_EQ(result.finish_reason(), FORETOKEN_FINISH_CANCELLED);
  EXPECT_EQ(num_calls, 2);
  EXPECT_THROW(static_cast<void>(engine.generate(engine.tokenize("Explain the word"), request_for(40),
                                                 [](std::string_view) -> bool { throw std::runtime_error("no more"); })),
               std::runtime_error);
  EXPECT_EQ(engine.statistics().active, 0);
}

TEST_F(EngineApi, SamplesWithMasksAndBiases) {
  auto options = defaults<foretoken_engine_options>();
  options.token_masks = 1;
  const Engine engine = load(options);
  foretoken_request request = request_for(12);
  request.temperature = 0.8F;
  request.seed = 11;
  request.mask = [](void*, const int32_t*, size_t, uint32_t* allowed, size_t) -> int32_t {
    allowed[0] = 0x00F0U;  // tokens 4 .. 7
    return 1;
  };
  const Result masked = engine.generate(prompt_of(1, 8), request);
  EXPECT_THAT(masked.token_ids(), testing::Each(testing::AllOf(testing::Ge(4), testing::Le(7))));
  const Result again = engine.generate(prompt_of(1, 8), request);
  EXPECT_THAT(again.token_ids(), testing::ElementsAreArray(masked.token_ids()));
}

TEST_F(EngineApi, RefusesWhatDoesNotFit) {
  const Engine engine = load();
  EXPECT_THROW(static_cast<void>(engine.submit({})), Error);
  EXPECT_THROW(static_cast<void>(engine.submit(prompt_of(1, 200))), Error);
  foretoken_request hot = request_for(4);
  hot.temperature = 1.0F;
  EXPECT_THROW(static_cast<void>(engine.submit(prompt_of(1, 4), hot)), Error) << "sampling was not asked for at load";
  EXPECT_THROW(engine.cancel(12345), Error);
}

}  // namespace
}  // namespace foretoken::test
