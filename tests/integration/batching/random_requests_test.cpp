// Many requests at once, joining, leaving, cancelled and stopped at random: every text is that of the request alone, and all
// memory comes back.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "test_model.h"
#include "tests/support/golden.h"

namespace foretoken::test {
namespace {

struct RandomRequest {
  std::vector<int32_t> prompt;
  GenerationOptions options;
  int64_t joins_at = 0;    // round
  int64_t cancels_at = 0;  // tokens after which it is cancelled; 0: never
};

struct Mix {
  size_t num_requests = 64;
  int64_t max_prompt = 48;
  int64_t max_tokens = 40;
  int64_t last_join = 60;  // round
  unsigned seed = 1;
  int64_t preempts_every = 0;  // rounds; 0: never
};

class RandomRequestsTest : public ::testing::TestWithParam<std::string> {
 protected:
  static TestModelOptions options(int32_t max_sequences) {
    TestModelOptions wanted{.max_seq_len = 256, .max_drafts = 7};
    wanted.max_sequences = max_sequences;
    wanted.prefill_chunk = 16;  // most prompts take several
    return wanted;
  }

  [[nodiscard]] std::vector<RandomRequest> draw(const Mix& mix) const;
  /// The text of each request alone, with as many tokens as it got before it was cancelled.
  void expect_solo_texts(const std::vector<RandomRequest>& requests, const std::vector<GenerationResult>& results);
  /// All through one engine; results in the order of the requests.
  std::vector<GenerationResult> run(TestModel& model, const std::vector<RandomRequest>& requests, const Mix& mix);

  std::unique_ptr<GpuBackend> backend_ = open_test_device();
  Golden golden_{GetParam() + ".golden.safetensors"};
};

std::vector<RandomRequest> RandomRequestsTest::draw(const Mix& mix) const {
  std::mt19937 generator(mix.seed);
  const auto any = [&generator](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(generator);
  };
  std::vector<RandomRequest> requests(mix.num_requests);
  for (RandomRequest& request : requests) {
    const std::vector<int32_t> whole = golden_.i32("prompt_" + std::to_string(any(0, 31)));
    const auto length = std::min<int64_t>(any(1, mix.max_prompt), static_cast<int64_t>(whole.size()));
    request.prompt.assign(whole.begin(), whole.begin() + length);
    request.options.max_tokens = any(1, mix.max_tokens);
    request.options.num_speculative_tokens = any(0, 7);
    if (any(0, 3) == 0) request.options.depth_pattern = {any(0, 7), 0, any(0, 7)};
    if (any(0, 2) == 0) request.options.stop_token_ids = {static_cast<int32_t>(any(0, 400)), static_cast<int32_t>(any(0, 400))};
    request.joins_at = any(0, mix.last_join);
    if (any(0, 4) == 0) request.cancels_at = any(1, 20);
  }
  std::ranges::stable_sort(requests, {}, &RandomRequest::joins_at);
  return requests;
}

std::vector<GenerationResult> RandomRequestsTest::run(TestModel& model, const std::vector<RandomRequest>& requests,
                                                      const Mix& mix) {
  std::mt19937 generator(mix.seed);
  GenerationEngine& engine = model.generator();
  std::map<size_t, RequestId> alive;
  std::vector<GenerationResult> results(requests.size());
  std::vector<RequestId> ids(requests.size());
  size_t next = 0;
  for (int64_t round = 0; next < requests.size() || !alive.empty(); ++round) {
    for (; next < requests.size() && requests[next].joins_at <= round; ++next) {
      GenerationOptions wanted = requests[next].options;
      if (requests[next].cancels_at > 0) {
        wanted.on_token = [&engine, &ids, index = next, left = requests[next].cancels_at](int32_t) mutable {
          if (--left == 0) engine.cancel(ids[index]);
        };
      }
      ids[next] = engine.submit(requests[next].prompt, std::move(wanted));
      alive.emplace(next, ids[next]);
    }
    engine.step();
    if (mix.preempts_every > 0 && round % mix.preempts_every == 0 && !alive.empty()) {
      const RequestId victim = std::next(alive.begin(), static_cast<int64_t>(generator() % alive.size()))->second;
      if (engine.is_decoding(victim)) engine.preempt(victim);
    }
    for (auto one = alive.begin(); one != alive.end();) {
      if (!engine.is_finished(one->second)) {
        ++one;
        continue;
      }
      results[one->first] = engine.take_result(one->second);
      one = alive.erase(one);
    }
  }
  return results;
}

void RandomRequestsTest::expect_solo_texts(const std::vector<RandomRequest>& requests,
                                           const std::vector<GenerationResult>& results) {
  TestModel alone(*backend_, GetParam(), options(1));
  for (size_t i = 0; i < requests.size(); ++i) {
    GenerationOptions plain = requests[i].options;
    plain.num_speculative_tokens = 0;
    plain.depth_pattern.clear();
    const GenerationResult expected = alone.generator().generate(requests[i].prompt, plain);
    const auto& text = results[i].output_token_ids;
    if (results[i].finish_reason == FinishReason::kCancelled) {
      ASSERT_LE(text.size(), expected.output_token_ids.size()) << "request " << i;
      EXPECT_TRUE(std::ranges::equal(text, std::span(expected.output_token_ids).first(text.size()))) << "request " << i;
      EXPECT_GE(static_cast<int64_t>(text.size()), requests[i].cancels_at) << "request " << i;
    } else {
      EXPECT_EQ(text, expected.output_token_ids) << "request " << i;
      EXPECT_EQ(results[i].finish_reason, expected.finish_reason) << "request " << i;
    }
  }
}

// Field report 40: short requests that ended beside a long one, and left rows behind.
TEST_P(RandomRequestsTest, EveryTextIsThatOfTheRequestAlone) {
  for (const int32_t max_sequences : {16, 5}) {
    TestModel model(*backend_, GetParam(), options(max_sequences));
    const int32_t kv_blocks = model.runner().kv_cache().pool().num_free();
    const Mix mix{.seed = static_cast<unsigned>(max_sequences)};
    const std::vector<RandomRequest> requests = draw(mix);
    const std::vector<GenerationResult> results = run(model, requests, mix);
    EXPECT_GT(model.generator().statistics().max_active, max_sequences / 2);
    EXPECT_EQ(model.runner().kv_cache().pool().num_free(), kv_blocks);
    EXPECT_EQ(model.runner().states().num_free(), max_sequences);
    EXPECT_EQ(model.proposer().kv_cache().pool().num_free(), model.proposer().kv_cache().pool().num_blocks());
    const size_t allocated = backend_->allocated_bytes();
    static_cast<void>(run(model, requests, mix));
    EXPECT_EQ(backend_->allocated_bytes(), allocated) << "a second run of the same mix needs nothing more";
    expect_solo_texts(requests, results);
  }
}

TEST_P(RandomRequestsTest, PreemptedRequestsGoOnWithTheSameText) {
  TestModel model(*backend_, GetParam(), options(6));
  const Mix mix{.num_requests = 32, .seed = 77, .preempts_every = 2};
  const std::vector<RandomRequest> requests = draw(mix);
  const std::vector<GenerationResult> results = run(model, requests, mix);
  EXPECT_GT(model.generator().statistics().num_preemptions, 10);
  expect_solo_texts(requests, results);
}

/// Requests join when their prompt fits, and the youngest make way when blocks run out.
TEST_P(RandomRequestsTest, RequestsThatOutgrowTheCacheTakeTurns) {
  TestModelOptions tight = options(8);
  tight.overcommit = true;
  tight.num_kv_blocks = 20;
  TestModel model(*backend_, GetParam(), tight);
  const Mix mix{.num_requests = 24, .max_tokens = 120, .last_join = 5, .seed = 5};
  const std::vector<RandomRequest> requests = draw(mix);
  const std::vector<GenerationResult> results = run(model, requests, mix);
  const GenerationStatistics& statistics = model.generator().statistics();
  EXPECT_GT(statistics.num_preemptions, 0);
  EXPECT_LT(statistics.num_preemptions, mix.num_requests / 2) << "a request that comes back stays for a while";
  EXPECT_EQ(model.runner().kv_cache().pool().num_free(), 20);
  expect_solo_texts(requests, results);
}

/// Everything that requests may meet at once, in few steps.
TEST_P(RandomRequestsTest, AShortMixGivesTheTextsOfTheRequestsAlone) {
  TestModelOptions tight = options(16);
  tight.overcommit = true;
  tight.num_kv_blocks = 36;
  tight.prefix_cache =
      PrefixCacheOptions{.snapshot_bytes = 1U << 20, .prefill_chunk = 16, .snapshot_spacing = 16, .row_invariant_prefill = true};
  TestModel model(*backend_, GetParam(), tight);
  const Mix mix{.max_prompt = 24, .max_tokens = 9, .last_join = 12, .seed = 64, .preempts_every = 1};
  const std::vector<RandomRequest> requests = draw(mix);
  const std::vector<GenerationResult> results = run(model, requests, mix);
  EXPECT_EQ(model.generator().statistics().max_active, 16);
  EXPECT_GT(model.generator().statistics().num_preemptions, 1);
  EXPECT_EQ(model.runner().states().num_free(), 16);
  EXPECT_GT(std::ranges::count(results, FinishReason::kCancelled, &GenerationResult::finish_reason), 0);
  EXPECT_GT(std::ranges::count_if(results, [](const auto& result) { return result.speculation.accepted() > 0; }), 0);
  EXPECT_GT(std::ranges::count_if(results, [](const auto& result) { return result.num_cached_tokens > 0; }), 0);
  expect_solo_texts(requests, results);
}

// Field report 16: an engine whose state went wrong after hours.
/// Memory that is never given back, or a slot that keeps something of its last request, would show.
TEST_P(RandomRequestsTest, TwoThousandRequestsLeaveNothingBehind) {
  TestModelOptions cached = options(32);
  cached.prefix_cache =
      PrefixCacheOptions{.snapshot_bytes = 8U << 20, .prefill_chunk = 16, .snapshot_spacing = 16, .row_invariant_prefill = true};
  TestModel model(*backend_, GetParam(), cached);
  const Mix mix{.num_requests = 2000, .max_prompt = 40, .max_tokens = 12, .last_join = 700, .seed = 2000, .preempts_every = 7};
  const std::vector<RandomRequest> requests = draw(mix);
  const std::vector<GenerationResult> results = run(model, requests, mix);
  EXPECT_EQ(model.runner().states().num_free(), 32);
  expect_solo_texts(requests, results);
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, RandomRequestsTest, ::testing::Values("tiny-dense", "tiny-moe"),
                         [](const auto& instance) { return instance.param == "tiny-dense" ? "TinyDense" : "TinyMoe"; });

}  // namespace
}  // namespace foretoken::test
