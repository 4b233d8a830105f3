// How requests join and leave the generation engine, what callbacks may do, and what is refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>

#include "core/error.h"
#include "models/bundled.h"
#include "test_model.h"
#include "tests/support/golden.h"

namespace foretoken::test {
namespace {

class EngineTest : public ::testing::Test {
 protected:
  [[nodiscard]] std::vector<int32_t> prompt(int64_t i) const { return golden_.i32("prompt_" + std::to_string(i)); }
  static TestModelOptions batched(int32_t max_sequences) {
    TestModelOptions options{.max_seq_len = 512, .max_drafts = 5};
    options.max_sequences = max_sequences;
    return options;
  }
  std::vector<int32_t> alone(int64_t i, int64_t max_tokens) {
    TestModel model(*backend_, "tiny-dense", batched(1));
    return model.generate(prompt(i), 0, max_tokens).output_token_ids;
  }

  std::unique_ptr<GpuBackend> backend_ = open_test_device();
  Golden golden_{"tiny-dense.golden.safetensors"};
};

// Field report 41: equal streams that spoilt each other.
/// Streams share nothing that they write: as many equal ones as fit, and each gives the text of one.
TEST_F(EngineTest, EqualStreamsAllGiveTheTextOfOne) {
  const std::vector<int32_t> expected = alone(25, 60);
  TestModel model(*backend_, "tiny-dense", batched(64));
  std::vector<RequestId> ids;
  for (int i = 0; i < 64; ++i)
    ids.push_back(model.generator().submit(prompt(25), {.max_tokens = 60, .num_speculative_tokens = 5}));
  while (model.generator().step()) {
  }
  EXPECT_EQ(model.generator().statistics().max_active, 64);
  for (const RequestId id : ids) EXPECT_EQ(model.generator().take_result(id).output_token_ids, expected);
}

TEST_F(EngineTest, RequestsJoinInOrderOfArrival) {
  TestModel model(*backend_, "tiny-dense", batched(2));
  std::vector<int> first_tokens;
  std::vector<RequestId> ids;
  for (int i = 0; i < 6; ++i) {
    GenerationOptions options{.max_tokens = 3 + i % 2, .num_speculative_tokens = 0};
    options.on_token = [&first_tokens, i](int32_t) {
      if (std::ranges::find(first_tokens, i) == first_tokens.end()) first_tokens.push_back(i);
    };
    ids.push_back(model.generator().submit(prompt(25 + i % 3), std::move(options)));
  }
  while (model.generator().step()) EXPECT_LE(model.generator().num_active(), 2);
  EXPECT_EQ(first_tokens, (std::vector<int>{0, 1, 2, 3, 4, 5}));
}

TEST_F(EngineTest, ARequestThatDecodesGoesOnWhileALongPromptIsRead) {
  TestModelOptions options = batched(2);
  options.max_seq_len = 3400;
  options.prefill_chunk = 64;
  TestModel model(*backend_, "tiny-dense", options);
  const RequestId first = model.generator().submit(prompt(25), {.max_tokens = 200, .num_speculative_tokens = 0});
  model.generator().step();
  const RequestId second = model.generator().submit(prompt(33), {.max_tokens = 4});
  int64_t rounds = 0;
  for (; !model.generator().is_finished(second); ++rounds) model.generator().step();
  const int64_t chunks = (static_cast<int64_t>(prompt(33).size()) + 63) / 64;
  EXPECT_GE(rounds, chunks);
  EXPECT_GE(model.generator().statistics().num_rounds, chunks) << "a round for each chunk";
  model.generator().cancel(first);
  EXPECT_GE(static_cast<int64_t>(model.generator().take_result(first).output_token_ids.size()), chunks);
}

TEST_F(EngineTest, CancelledRequestsGiveTheirMemoryBackWhereverTheyAre) {
  TestModel model(*backend_, "tiny-dense", batched(1));
  GenerationEngine& engine = model.generator();
  const int32_t blocks = model.runner().kv_cache().pool().num_free();
  const RequestId decoding = engine.submit(prompt(25), {.max_tokens = 50});
  const RequestId waiting = engine.submit(prompt(26), {.max_tokens = 50});
  engine.step();
  engine.step();
  EXPECT_EQ(engine.num_waiting(), 1);
  engine.cancel(waiting);
  engine.cancel(decoding);
  EXPECT_FALSE(engine.step());
  EXPECT_EQ(model.runner().kv_cache().pool().num_free(), blocks);
  EXPECT_EQ(engine.take_result(waiting).finish_reason, FinishReason::kCancelled);
  EXPECT_EQ(engine.take_result(decoding).finish_reason, FinishReason::kCancelled);
  EXPECT_THROW(engine.cancel(decoding), Error);
}

TEST_F(EngineTest, AnExceptionOfACallbackEndsItsRequestOnly) {
  const std::vector<int32_t> expected = alone(26, 20);
  TestModel model(*backend_, "tiny-dense", batched(2));
  GenerationOptions throwing{.max_tokens = 20};
  throwing.on_token = [left = 3](int32_t) mutable {
    if (--left == 0) throw std::runtime_error("the reader is gone");
  };
  const RequestId broken = model.generator().submit(prompt(25), std::move(throwing));
  const RequestId whole = model.generator().submit(prompt(26), {.max_tokens = 20});
  int64_t thrown = 0;
  while (!model.generator().is_finished(whole)) {
    try {
      model.generator().step();
    } catch (const std::runtime_error&) {
      ++thrown;
    }
  }
  EXPECT_EQ(thrown, 1);
  EXPECT_EQ(model.generator().take_result(broken).finish_reason, FinishReason::kCancelled);
  EXPECT_EQ(model.generator().take_result(whole).output_token_ids, expected);
}

TEST_F(EngineTest, StopStringsEndTheTextBeforeThem) {
  const Tokenizer tokenizer = Tokenizer::load(bundled_model());
  TestModelOptions options = batched(1);
  options.tokenizer = &tokenizer;
  TestModel model(*backend_, "tiny-dense", options);
  const std::string text = model.generator().generate(prompt(25), {.max_tokens = 60}).text;
  ASSERT_GT(text.size(), 30U);
  const std::string stop = text.substr(20, 5);
  for (const int64_t depth : {0, 5}) {
    GenerationOptions stopping{.max_tokens = 60, .num_speculative_tokens = depth, .stop_strings = {stop, "never there"}};
    std::string streamed;
    stopping.on_text = [&streamed](std::string_view piece) { streamed += piece; };
    const GenerationResult result = model.generator().generate(prompt(25), stopping);
    EXPECT_EQ(result.text, text.substr(0, text.find(stop)));
    EXPECT_EQ(streamed, result.text);
    EXPECT_EQ(result.finish_reason, FinishReason::kStop);
  }
}

TEST_F(EngineTest, TheDepthPolicyChangesBetweenRequestsOnly) {
  TestModel model(*backend_, "tiny-dense", batched(2));
  GenerationEngine& engine = model.generator();
  const auto depth_of = [&](std::unique_ptr<DepthPolicy> policy) {
    engine.set_depth_policy(std::move(policy));
    const GenerationResult result = engine.generate(prompt(25), {.max_tokens = 20, .num_speculative_tokens = 4});
    return result.speculation.rounds() == 0 ? 0 : result.speculation.drafted / result.speculation.rounds();
  };
  EXPECT_EQ(depth_of(make_depth_policy({.max_drafts = 2})), 2);
  EXPECT_EQ(depth_of(make_depth_policy({.max_drafts = 0})), 0);
  EXPECT_EQ(depth_of(nullptr), 4) << "the request's own";
  const RequestId id = engine.submit(prompt(25), {.max_tokens = 40});
  EXPECT_THROW(engine.set_depth_policy(nullptr), Error);
  engine.step();
  EXPECT_THROW(engine.set_depth_policy(nullptr), Error);
  engine.cancel(id);
  engine.step();
  engine.set_depth_policy(nullptr);
}

TEST_F(EngineTest, BadRequestsAreRefusedBeforeTheyWait) {
  TestModel model(*backend_, "tiny-dense", batched(2));
  GenerationEngine& engine = model.generator();
  EXPECT_THROW(engine.submit({}, {}), Error);
  EXPECT_THROW(engine.submit({-1}, {}), Error);
  EXPECT_THROW(engine.submit({4096}, {}), Error);
  EXPECT_THROW(engine.submit(std::vector<int32_t>(512, 5), {}), Error);
  EXPECT_THROW(engine.submit({5}, {.max_tokens = 0}), Error);
  EXPECT_THROW(engine.submit({5}, {.num_speculative_tokens = 6}), Error);
  EXPECT_THROW(engine.submit({5}, {.depth_pattern = {1, -1}}), Error);
  EXPECT_THROW(engine.submit({5}, {.stop_strings = {"x"}}), Error) << "no tokenizer";
  EXPECT_EQ(engine.num_waiting(), 0);
  EXPECT_FALSE(engine.step());
  EXPECT_THROW(static_cast<void>(engine.take_result(1)), Error);
}

}  // namespace
}  // namespace foretoken::test
