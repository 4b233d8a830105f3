// `foretoken generate` with many prompts, and the options about what requests share.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/integration/cli/tool.h"

namespace foretoken::test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Words = std::vector<std::string>;

const Words kQuestions{"What is a violin?", "What is a lighthouse?", "What does \"brittle\" mean?"};

ToolRun generate(Words words, const Words& more = {}) {
  words.insert(words.begin(), "generate");
  words.insert(words.end(), more.begin(), more.end());
  ToolRun run = run_tool(words);
  EXPECT_EQ(run.status, 0) << run.err;
  return run;
}

Words chats(const Words& questions) {
  Words words{"--quiet"};
  for (const std::string& question : questions) words.insert(words.end(), {"--chat", question});
  return words;
}

/// The same prompt twice, longer than two chunks of 64 tokens.
Words repeated(const Words& more) {
  Words words{"--token-ids", repeated_ids(200), "--token-ids", repeated_ids(200), "--max-sequences", "1", "--max-tokens", "24",
              "--json",      "--prefill-chunk", "64",          "--quiet"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST(ManyPrompts, EachTextIsThatOfItsPromptAloneInOrder) {
  std::string expected;
  for (size_t i = 0; i < kQuestions.size(); ++i) {
    expected += "== " + std::to_string(i + 1) + " ==\n" + generate(chats({kQuestions[i]})).out;
  }
  for (const std::string sequences : {"1", "2", "8"}) {
    const ToolRun run = generate(chats(kQuestions), {"--max-sequences", sequences});
    EXPECT_EQ(run.out, expected) << sequences << " at once";
    EXPECT_THAT(run.err, IsEmpty());
  }
}

TEST(ManyPrompts, JsonHasAResultForEach) {
  const json all = generate(chats(kQuestions), {"--json"}).json();
  ASSERT_EQ(all["results"].size(), kQuestions.size());
  for (size_t i = 0; i < kQuestions.size(); ++i) {
    json alone = generate(chats({kQuestions[i]}), {"--json"}).json();
    for (const char* member : {"prompt_tokens", "output_token_ids", "text", "finish_reason"}) {
      EXPECT_EQ(all["results"][i][member], alone[member]) << member << " of prompt " << i;
    }
    EXPECT_EQ(all["results"][i]["speculation"]["accepted_per_round"], alone["speculation"]["accepted_per_round"]);
  }
  EXPECT_FALSE(all.contains("text"));
  EXPECT_GT(all["timing_ms"]["texts"].get<double>(), 0.0);
}

TEST(ManyPrompts, ComeFromFilesToo) {
  const TemporaryFolder folder;
  const std::string lines = (folder.path() / "questions.txt").string();
  std::string text;
  for (const std::string& question : kQuestions) text += question + "\n\n";
  write_file(lines, text);
  const std::string expected = generate(chats(kQuestions)).out;
  EXPECT_EQ(generate({"--quiet", "--prompts", lines}).out, expected);
  EXPECT_EQ(run_tool({"generate", "--quiet", "--prompts", "-"}, {.stdin_text = text}).out, expected);

  const std::string ids = (folder.path() / "ids.json").string();
  write_file(ids, "[[1, 2, 3], [5, 6]]");
  const Words short_texts{"--max-tokens", "6", "--quiet"};
  EXPECT_EQ(generate({"--token-ids-file", ids}, short_texts).out,
            generate({"--token-ids", "1,2,3", "--token-ids", "5,6"}, short_texts).out);
  write_file(ids, R"({"not": "lists"})");
  const ToolRun refused = run_tool({"generate", "--token-ids-file", ids});
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.err, HasSubstr("a JSON list of lists of token ids"));
}

TEST(ManyPrompts, FiguresSumUp) {
  const ToolRun run = generate({"--chat", kQuestions[0], "--chat", kQuestions[1]});
  for (const char* figure : {"prompts      2, ", "tokens/s in all", "rounds", "from the prefix cache", "texts"}) {
    EXPECT_THAT(run.err, HasSubstr(figure));
  }
}

TEST(ManyPrompts, TakeTurnsWhereTheKvCacheRunsShort) {
  const json expected = generate(chats(kQuestions), {"--json"}).json();
  const json tight = generate(chats(kQuestions), {"--json", "--overcommit", "--kv-cache-tokens", "160"}).json();
  for (size_t i = 0; i < kQuestions.size(); ++i) {
    EXPECT_EQ(tight["results"][i]["output_token_ids"], expected["results"][i]["output_token_ids"]);
  }
}

TEST(PrefixCacheOptions, ARepeatFindsWhatIsKept) {
  const auto cached = [](const Words& more) {
    const json all = generate(repeated(more)).json();
    EXPECT_EQ(all["results"][0]["cached_prompt_tokens"], 0);
    EXPECT_EQ(all["results"][1]["output_token_ids"], all["results"][0]["output_token_ids"]);
    return all["results"][1]["cached_prompt_tokens"].get<int>();
  };
  EXPECT_EQ(cached({}), 192) << "on by itself with several prompts";
  EXPECT_EQ(cached({"--prefix-cache", "on"}), 192);
  EXPECT_EQ(cached({"--prefix-cache", "off"}), 0);
  EXPECT_EQ(cached({"--prefix-snapshots", "0"}), 0) << "this model has recurrent state";
  EXPECT_EQ(cached({"--prefix-turns", "off"}), 192);
  EXPECT_EQ(cached({"--prefix-draft-rows", "off"}), 192);
  EXPECT_EQ(cached({"--draft-prompt-rows", "off"}), 192);
  EXPECT_EQ(cached({"--prefix-spacing", "100"}), 192) << "rounded up to chunks";
}

TEST(PrefixCacheOptions, SpacingDecidesWhatAnotherPromptFinds) {
  std::string other = repeated_ids(150);
  other += ",8,8,8";
  const auto cached = [&other](const std::string& spacing) {
    const Words words{"--token-ids", repeated_ids(400), "--token-ids",     other, "--max-sequences",  "1",    "--max-tokens", "4",
                      "--json",      "--quiet",         "--prefill-chunk", "64",  "--prefix-spacing", spacing};
    return generate(words).json()["results"][1]["cached_prompt_tokens"].get<int>();
  };
  EXPECT_EQ(cached("64"), 128);
  EXPECT_EQ(cached("256"), 0) << "the states kept are further on";
}

TEST(DraftPromptRows, OffChangesAcceptanceAndNoText) {
  const Words words{"--chat", kQuestions[0], "--json", "--quiet"};
  const json on = generate(words).json();
  const json off = generate(words, {"--draft-prompt-rows", "off"}).json();
  EXPECT_EQ(off["output_token_ids"], on["output_token_ids"]);
  EXPECT_LT(off["speculation"]["accepted"], on["speculation"]["accepted"]);

  const Words bench{"bench", "acceptance",      "--max-tokens", "24",     "--draft-precision",
                    "auto",  "--draft-lm-head", "checkpoint",   "--json", "--quiet"};
  Words without = bench;
  without.insert(without.end(), {"--draft-prompt-rows", "off"});
  const auto share = [](const ToolRun& run) { return run.json()["combinations"][0]["prefix_acceptance"][0].get<double>(); };
  EXPECT_LT(share(run_tool(without)), share(run_tool(bench)));
}

}  // namespace
}  // namespace foretoken::test
