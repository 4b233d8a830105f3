// Sampling options and stop strings of `foretoken generate`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/integration/cli/tool.h"

namespace foretoken::test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;
using Words = std::vector<std::string>;

json sampled(Words words) {
  words.insert(words.begin(), {"generate", "--chat", "What does \"eccentric\" mean?", "--max-tokens", "40", "--json", "--quiet"});
  const ToolRun run = run_tool(words);
  EXPECT_EQ(run.status, 0) << run.err;
  return run.json();
}

TEST(Sampling, ASeedGivesTheSameTextAndAnotherOneAnother) {
  const Words hot{"--temperature", "0.9", "--top-p", "0.95", "--seed"};
  const auto with = [&hot](const std::string& seed, const Words& more) {
    Words words = hot;
    words.push_back(seed);
    words.insert(words.end(), more.begin(), more.end());
    return sampled(words)["output_token_ids"];
  };
  const json first = with("7", {});
  EXPECT_EQ(with("7", {}), first);
  EXPECT_NE(with("8", {}), first);
  const json plain = with("7", {"--speculative-tokens", "0"});
  EXPECT_EQ(with("7", {"--speculative-tokens", "4", "--draft-sampling", "greedy"}), plain) << "greedy drafts change no text";
}

TEST(Sampling, PenaltiesAndBiasChangeAGreedyTextAtEveryDepthAlike) {
  const Words wanted{"--repetition-penalty", "1.5", "--logit-bias", "13:-inf,11:-4"};
  Words deep = wanted;
  deep.insert(deep.end(), {"--speculative-tokens", "5"});
  Words plain = wanted;
  plain.insert(plain.end(), {"--speculative-tokens", "0"});
  const json ids = sampled(deep)["output_token_ids"];
  EXPECT_EQ(sampled(plain)["output_token_ids"], ids);
  EXPECT_NE(sampled({})["output_token_ids"], ids);
  for (const json& id : ids) EXPECT_NE(id, 13);
}

TEST(Sampling, AStopStringEndsTheText) {
  const std::string whole = sampled({})["text"];
  ASSERT_GT(whole.size(), 20U);
  const std::string stop = whole.substr(10, 4);
  const json stopped = sampled({"--stop", stop});
  EXPECT_EQ(stopped["text"], whole.substr(0, whole.find(stop)));
  EXPECT_EQ(stopped["finish_reason"], "stop");
}

TEST(Sampling, BadValuesNameTheOption) {
  const auto refused = [](const Words& words) {
    Words all{"generate", "--prompt", "x"};
    all.insert(all.end(), words.begin(), words.end());
    const ToolRun run = run_tool(all);
    EXPECT_NE(run.status, 0);
    EXPECT_TRUE(run.out.empty()) << run.out;
    return run.err;
  };
  EXPECT_THAT(refused({"--temperature", "hot"}), HasSubstr("option --temperature: expected a number from 0 to 100, got 'hot'"));
  EXPECT_THAT(refused({"--temperature", "-1"}), HasSubstr("--temperature"));
  EXPECT_THAT(refused({"--top-p", "0"}), HasSubstr("top_p"));
  EXPECT_THAT(refused({"--top-p", "nan"}), HasSubstr("--top-p"));
  EXPECT_THAT(refused({"--logit-bias", "5"}), HasSubstr("expected ID:BIAS"));
  EXPECT_THAT(refused({"--logit-bias", "5:1,5:2"}), HasSubstr("twice"));
  EXPECT_THAT(refused({"--logit-bias", "999999:1"}), HasSubstr("999999"));
  EXPECT_THAT(refused({"--draft-sampling", "lucky"}), HasSubstr("block, rejection, greedy"));
  EXPECT_THAT(refused({"--temperature", "1", "--self-check"}), HasSubstr("--self-check"));
  EXPECT_THAT(refused({"--temperature", "1", "--compare"}), HasSubstr("--draft-sampling greedy"));
  const ToolRun no_tokenizer =
      run_tool({"generate", "--model", "synth:qwen3.5-0.8b:layers=4", "--token-ids", "1,2", "--stop", "x"});
  EXPECT_NE(no_tokenizer.status, 0);
  EXPECT_THAT(no_tokenizer.err, HasSubstr("tokenizer"));
}

}  // namespace
}  // namespace foretoken::test
