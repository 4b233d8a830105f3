// `foretoken draft-vocab`, and drafting with what it writes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/integration/cli/tool.h"

namespace foretoken::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

class DraftVocabTool : public ::testing::Test {
 protected:
  DraftVocabTool() {
    write_file(text_, "The quick brown fox jumps over the lazy dog. The dog sleeps, the fox runs.\n");
    write_file(more_, "A second text, with some more words about the fox and the dog.\n");
  }

  ToolRun build(const std::vector<std::string>& words) const {
    std::vector<std::string> all{"draft-vocab", "--model", bundled("tiny-dense").string(), "--output", vocab_.string()};
    all.insert(all.end(), words.begin(), words.end());
    return run_tool(all);
  }
  static nlohmann::json generate(const std::vector<std::string>& words) {
    std::vector<std::string> all{"generate", "--model", bundled("tiny-dense").string(), "--prompt", "The quick", "--max-tokens",
                                 "24",       "--json"};
    all.insert(all.end(), words.begin(), words.end());
    const ToolRun run = run_tool(all);
    EXPECT_EQ(run.status, 0) << run.err;
    return run.json();
  }

  TemporaryFolder folder_;
  std::filesystem::path text_ = folder_.path() / "text.txt";
  std::filesystem::path more_ = folder_.path() / "more.txt";
  std::filesystem::path vocab_ = folder_.path() / "vocab.json";
};

TEST_F(DraftVocabTool, WritesWhatGenerateDraftsWith) {
  const ToolRun run = build({"--from", text_.string() + "," + more_.string(), "--size", "40"});
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, AllOf(HasSubstr(" of "), HasSubstr("% of the ")));
  EXPECT_THAT(run.err, IsEmpty());
  const auto file = nlohmann::json::parse(read_file(vocab_));
  EXPECT_EQ(file.at("format"), "foretoken-draft-vocab");
  EXPECT_GE(file.at("token_ids").size(), 40U);
  const nlohmann::json plain = generate({"--speculative-tokens", "0"});
  for (const std::string& vocab : {vocab_.string(), std::string("40"), std::string("1")}) {
    EXPECT_EQ(generate({"--draft-vocab", vocab, "--speculative-tokens", "3"}).at("output_token_ids"),
              plain.at("output_token_ids"))
        << vocab;
  }
  const ToolRun noted = run_tool({"generate", "--prompt", "The", "--max-tokens", "2", "--draft-vocab", vocab_.string()});
  EXPECT_THAT(noted.err, HasSubstr("drafts are picked from " + std::to_string(file.at("token_ids").size()) + " of "));
}

TEST_F(DraftVocabTool, IsUnderstoodByTheBenchmarks) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"bench", "draft", "--speculative-tokens", "2", "--repeat", "2"},
        std::vector<std::string>{"bench", "acceptance", "--max-tokens", "8", "--draft-precision", "auto", "--draft-lm-head",
                                 "fp8"}}) {
    std::vector<std::string> all = words;
    all.insert(all.end(), {"--draft-vocab", "50", "--json"});
    const ToolRun run = run_tool(all);
    EXPECT_EQ(run.status, 0) << run.err;
  }
}

TEST_F(DraftVocabTool, RefusesWhatItCannotUse) {
  const auto expect = [](const ToolRun& run, int status, const std::string& message) {
    EXPECT_EQ(run.status, status);
    EXPECT_THAT(run.out, IsEmpty());
    EXPECT_THAT(run.err, HasSubstr(message));
  };
  expect(build({}), 2, "--from");
  expect(build({"--from", "/no/such/file"}), 1, "/no/such/file");
  expect(build({"--from", text_.string(), "--size", "0"}), 2, "--size");
  expect(run_tool({"draft-vocab", "--from", text_.string()}), 2, "--output");
  EXPECT_FALSE(std::filesystem::exists(vocab_));

  const auto draft = [](const std::string& vocab) {
    return run_tool({"generate", "--token-ids", "1", "--max-tokens", "2", "--draft-vocab", vocab});
  };
  expect(draft(""), 2, "--draft-vocab");
  expect(draft("0"), 1, "size of the draft vocabulary");
  expect(draft("999999999"), 1, "size of the draft vocabulary");
  expect(draft("/no/such/file"), 1, "/no/such/file");
  write_file(vocab_, "{}");
  expect(draft(vocab_.string()), 1, "no \"format\"");
  write_file(vocab_, R"({"format": "foretoken-draft-vocab", "version": 1, "vocab_size": 7, "tokenizer": "", "token_ids": [1]})");
  expect(draft(vocab_.string()), 1, "for another model");
}

}  // namespace
}  // namespace foretoken::test
