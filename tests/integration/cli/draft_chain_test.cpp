// bench draft: what it prints, and wrong options.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/integration/cli/tool.h"

namespace foretoken::test {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Words = std::vector<std::string>;

ToolRun run_bench_draft(const Words& more) {
  Words words{"bench", "draft", "--backend", "cpu", "--quiet"};
  words.insert(words.end(), more.begin(), more.end());
  return run_tool(words);
}

/// Three chains of each kind.
ToolRun bench_draft(Words more) {
  more.insert(more.end(), {"--repeat", "3"});
  return run_bench_draft(more);
}

TEST(BenchDraft, MeasuresChainsOfEachLength) {
  const ToolRun run = bench_draft({"--model", bundled("tiny-moe").string(), "--speculative-tokens", "2,1,2", "--context", "40",
                                   "--draft-lm-head", "checkpoint", "--draft-kv-dtype", "f32", "--json"});
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.err, IsEmpty());
  const json report = run.json();
  EXPECT_EQ(report["backend"], "cpu");
  EXPECT_EQ(report["context_tokens"], 40);
  EXPECT_EQ(report["repeat"], 3);
  EXPECT_EQ(report["activations"], "f32");
  EXPECT_EQ(report["draft_kv_dtype"], "f32");
  EXPECT_EQ(report["draft_precision"]["stored"]["lm_head"], "bf16");
  ASSERT_EQ(report["chains"].size(), 2U);  // a length that is there twice is measured once
  EXPECT_EQ(report["chains"][0]["speculative_tokens"], 2);
  EXPECT_EQ(report["chains"][1]["speculative_tokens"], 1);
  for (const json& chain : report["chains"]) {
    for (const char* what : {"chain_us", "draft_us", "wall_us"}) {
      EXPECT_GT(chain[what]["p10"].get<double>(), 0.0) << chain;
      EXPECT_LE(chain[what]["p10"].get<double>(), chain[what]["median"].get<double>()) << chain;
      EXPECT_LE(chain[what]["median"].get<double>(), chain[what]["p90"].get<double>()) << chain;
    }
    EXPECT_TRUE(chain["host_us"].is_null()) << "the host computes";
    const double drafts = chain["speculative_tokens"].get<double>();
    EXPECT_NEAR(chain["draft_us"]["median"].get<double>() * drafts, chain["chain_us"]["median"].get<double>(), 1e-6) << chain;
    EXPECT_NEAR(chain["bytes_per_second"].get<double>() * chain["chain_us"]["median"].get<double>() / 1e6,
                chain["bytes_per_chain"].get<double>(), 1.0)
        << chain;
    EXPECT_NEAR(chain["bandwidth_share"].get<double>() * chain["times_floor"].get<double>(), 1.0, 1e-9) << chain;
  }
}

TEST(BenchDraft, CountsWeightsOncePerDraftAndTheRowsThatEachAttendsTo) {
  const auto bytes = [](const Words& more) {
    Words words{"--speculative-tokens", "1,2,3", "--draft-kv-dtype", "bf16", "--json"};
    words.insert(words.end(), more.begin(), more.end());
    std::vector<int64_t> list;
    const json report = bench_draft(words).json();
    for (const json& chain : report["chains"]) list.push_back(chain["bytes_per_chain"].get<int64_t>());
    return list;
  };
  const std::vector<int64_t> empty = bytes({"--context", "0"});
  const std::vector<int64_t> filled = bytes({"--context", "100"});
  ASSERT_EQ(empty.size(), 3U);
  ASSERT_EQ(filled.size(), 3U);
  const int64_t row = (filled[0] - empty[0]) / 100;  // K and V of one token
  EXPECT_GT(row, 0);
  EXPECT_EQ(filled[2] - empty[2], 300 * row);
  EXPECT_EQ(empty[1], 2 * empty[0] + row);  // the second draft attends to one row more
  EXPECT_EQ(empty[2], 3 * empty[0] + 3 * row);
  const std::vector<int64_t> small = bytes({"--context", "0", "--draft-precision", "nvfp4", "--draft-lm-head", "nvfp4"});
  ASSERT_EQ(small.size(), 3U);
  EXPECT_LT(small[0], empty[0]);
}

TEST(BenchDraft, PrintsATable) {
  const ToolRun run = bench_draft({"--speculative-tokens", "1"});
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, AllOf(HasSubstr("512 tokens in the drafter's cache, medians of 3 chains"), HasSubstr("draft head: fc "),
                             HasSubstr("x floor"), HasSubstr("host us")));
}

TEST(BenchDraft, NeedsADraftHead) {
  const TemporaryFolder folder;
  const ToolRun run = bench_draft({"--model", checkpoint_without_head(folder.path()).string()});
  EXPECT_EQ(run.status, 1);
  EXPECT_THAT(run.err, HasSubstr("speculation is not available"));
}

TEST(BenchDraft, RefusesWrongOptions) {
  const std::vector<std::tuple<Words, int, const char*>> cases{
      {{"--speculative-tokens", "0"}, 2, "'0' as item 1"}, {{"--speculative-tokens", "1,16"}, 2, "'16' as item 2"},
      {{"--context", "-1"}, 2, "option --context"},        {{"--context", "4090"}, 1, "at most 4079 tokens"},
      {{"--repeat", "0"}, 2, "option --repeat"},           {{"--draft-precision", "int4"}, 2, "option --draft-precision"},
      {{"--draft-kv-dtype", "e5m2"}, 2, "'e5m2'"},
  };
  for (const auto& [words, status, message] : cases) {
    const ToolRun run = run_bench_draft(words);
    EXPECT_EQ(run.status, status) << message;
    EXPECT_THAT(run.err, HasSubstr(message));
    EXPECT_THAT(run.out, IsEmpty());
  }
}

}  // namespace
}  // namespace foretoken::test
