#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "tests/integration/cli/tool.h"

namespace foretoken::test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;
using Words = std::vector<std::string>;

struct Command {
  Words words;
  Words options;
};

const std::vector<Command>& commands() {
  static const std::vector<Command> list{
      {{"generate"},
       {"--model",
        "--prompt",
        "--chat",
        "--prompt-file",
        "--token-ids",
        "--max-tokens",
        "--speculative-tokens",
        "--backend",
        "--threads",
        "--prefill-precision",
        "--activations",
        "--kv-dtype",
        "--compare",
        "--json",
        "--quiet",
        "--system",
        "--self-check",
        "--draft-hidden",
        "--draft-chain",
        "--draft-rows",
        "--draft-confidence-stop",
        "--draft-precision",
        "--draft-fc",
        "--draft-experts",
        "--draft-lm-head",
        "--prefill-chunk",
        "--prompts",
        "--token-ids-file",
        "--max-sequences",
        "--kv-cache-tokens",
        "--overcommit",
        "--prefix-cache",
        "--prefix-snapshots",
        "--prefix-spacing",
        "--prefix-turns",
        "--prefix-draft-rows",
        "--draft-prompt-rows"}},
      {{"devices"}, {"--json"}},
      {{"inspect"}, {"--json"}},
      {{"synth"}, {"--like", "--layers", "--output", "--seed"}},
      {{"quantize"}, {"--model", "--output", "--format", "--scope", "--scale-dtype"}},
      {{"bench", "decode"},
       {"--model", "--speculative-tokens", "--prompt-tokens", "--max-tokens", "--repeat", "--json", "--force-accept"}},
      {{"bench", "draft"}, {"--model", "--speculative-tokens", "--context", "--repeat", "--draft-precision", "--json"}},
      {{"bench", "acceptance"}, {"--model", "--prompts", "--token-ids-file", "--draft-precision", "--draft-lm-head", "--json"}},
      {{"bench", "serve"}, {"--rate", "--draft-rows", "--temperature", "--overcommit", "--prefix-cache", "--report", "--json"}},
      {{"conformance"}, {"--backend", "--op", "--json"}}};
  return list;
}

TEST(Help, OfEveryCommandHasItsOptionsExamplesAndStatuses) {
  for (const Command& command : commands()) {
    Words words = command.words;
    words.emplace_back("--help");
    const ToolRun run = run_tool(words);
    EXPECT_EQ(run.status, 0);
    EXPECT_THAT(run.err, IsEmpty());
    std::string name;
    for (const std::string& word : command.words) name += " " + word;
    EXPECT_THAT(run.out, StartsWith("Usage: foretoken" + name));
    for (const std::string& option : command.options) EXPECT_THAT(run.out, HasSubstr("  " + option));
    EXPECT_THAT(run.out, HasSubstr("Examples:\n"));
    EXPECT_THAT(run.out, HasSubstr("Exit status:\n"));

    words.pop_back();
    words.insert(words.begin(), "help");
    EXPECT_EQ(run_tool(words).out, run.out);
  }
}

TEST(Help, ListsEveryCommand) {
  const ToolRun run = run_tool({"--help"});
  EXPECT_EQ(run.status, 0);
  for (const char* command : {"generate", "devices", "inspect", "synth", "bench decode", "bench draft", "conformance"}) {
    EXPECT_THAT(run.out, HasSubstr("\n  " + std::string(command) + " "));
  }
  EXPECT_EQ(run_tool({"help"}).out, run.out);
  EXPECT_EQ(run_tool({"-h"}).out, run.out);
}

TEST(Help, LinesFitATerminal) {
  for (const Command& command : commands()) {
    Words words = command.words;
    words.emplace_back("-h");
    std::istringstream text(run_tool(words).out);
    for (std::string line; std::getline(text, line);) {
      if (line.starts_with("  foretoken ") || line.starts_with("  echo ")) continue;  // an example stays on one line
      EXPECT_LE(line.size(), 100U) << line;
    }
  }
}

TEST(Help, SaysTheVersion) {
  const ToolRun run = run_tool({"--version"});
  EXPECT_EQ(run.status, 0);
  EXPECT_THAT(run.out, ::testing::MatchesRegex("foretoken [0-9]+\\.[0-9]+\\.[0-9]+\n"));
}

TEST(Help, CompletionIsForBash) {
  for (const Words& words : {Words{"help", "--completion"}, Words{"help", "--completion", "zsh"}}) {
    const ToolRun run = run_tool(words);
    EXPECT_EQ(run.status, 2);
    EXPECT_THAT(run.err, HasSubstr("bash"));
    EXPECT_THAT(run.out, IsEmpty());
  }
}

TEST(Help, PageInDocsIsUpToDate) {
  EXPECT_EQ(run_tool({"help", "--markdown"}).out, read_file(FORETOKEN_CLI_PAGE))
      << "write it anew: foretoken help --markdown > docs/cli.md";
}

}  // namespace
}  // namespace foretoken::test
