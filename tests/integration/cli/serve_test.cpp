// `foretoken bench serve`, as users run it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/integration/cli/tool.h"

namespace foretoken::test {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Words = std::vector<std::string>;

/// A short run of the bundled checkpoint: `more`, and what it does not say.
Words serve_words(const Words& more) {
  Words words{"bench", "serve", "--requests", "6", "--max-sequences", "3", "--quiet"};
  const auto says = [&more](const std::string& option) { return std::ranges::find(more, option) != more.end(); };
  if (!says("--max-tokens")) words.insert(words.end(), {"--max-tokens", "6:14"});
  if (!says("--prompts") && !says("--token-ids-file")) words.insert(words.end(), {"--prompt-tokens", "8:20"});
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

ToolRun serve_well(const Words& more) {
  ToolRun run = run_tool(serve_words(more));
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.err, IsEmpty());
  return run;
}

void expect_percentiles(const json& latency) {
  EXPECT_GT(latency["p50"].get<double>(), 0.0);
  EXPECT_LE(latency["p50"].get<double>(), latency["p90"].get<double>());
  EXPECT_LE(latency["p90"].get<double>(), latency["p99"].get<double>());
  EXPECT_LE(latency["p99"].get<double>(), latency["max"].get<double>());
}

TEST(BenchServe, MeasuresEachRateWithEachNumberOfDrafts) {
  const json report =
      serve_well({"--rate", "50,inf", "--speculative-tokens", "0,2,auto,2:3,3:1", "--repeat", "2", "--check", "--json"}).json();
  EXPECT_EQ(report["requests"], 6);
  EXPECT_EQ(report["repeat"], 2);
  EXPECT_EQ(report["max_tokens"], json({6, 14}));
  const Words policies{"0", "2", "auto", "2:3,3:1"};
  ASSERT_EQ(report["series"].size(), 2 * policies.size());
  const int64_t tokens = report["series"][0]["output_tokens"].get<int64_t>();
  EXPECT_GE(tokens, 6 * 6);
  for (size_t i = 0; i < report["series"].size(); ++i) {
    const json& series = report["series"][i];
    SCOPED_TRACE(series.dump());
    EXPECT_EQ(series["speculative_tokens"], policies[i / 2]);
    EXPECT_EQ(series["rate"], i % 2 == 0 ? json(50.0) : json("inf"));
    EXPECT_EQ(series["different"], 0);
    EXPECT_EQ(series["output_tokens"], tokens) << "the seed decides how many";
    EXPECT_NEAR(series["output_tokens_per_second"].get<double>() * series["seconds"].get<double>(), static_cast<double>(tokens),
                1e-6);
    EXPECT_EQ(series["runs_output_tokens_per_second"].size(), 2U);
    for (const char* kind : {"time_to_first_token", "inter_token", "end_to_end"}) expect_percentiles(series["latency_ms"][kind]);
    EXPECT_LE(series["max_sequences"].get<int>(), 3);
    const auto counts = series["tokens_per_round"].get<std::vector<int64_t>>();
    int64_t in_rounds = 0;
    for (size_t n = 0; n < counts.size(); ++n) in_rounds += counts[n] * static_cast<int64_t>(n + 1);
    EXPECT_EQ(in_rounds, tokens - 6) << "all but the first token of each request";
    const json& time = series["timing_ms"];
    double sum = 0.0;
    for (const char* part : {"draft", "verify", "host", "prefill", "idle"}) sum += time[part].get<double>();
    EXPECT_NEAR(sum, 1000.0 * series["seconds"].get<double>(), 0.2 * sum);
    EXPECT_FALSE(series["timeline"].empty());
  }
  const json& plain = report["series"][0];
  EXPECT_EQ(plain["drafted"], 0);
  EXPECT_EQ(plain["timing_ms"]["draft"], 0.0);
  EXPECT_THAT(plain["acceptance_by_position"], IsEmpty());
  EXPECT_EQ(report["series"][2]["acceptance_by_position"].size(), 2U);
}

TEST(BenchServe, ComparesRowPolicies) {
  const TemporaryFolder folder;
  const auto page = folder.path() / "serve.html";
  const Words words{"--rate",       "inf",      "--speculative-tokens", "0,4",
                    "--max-tokens", "30:40",    "--draft-rows",         "exact,trim,exact",
                    "--check",      "--report", page.string()};
  const ToolRun text = serve_well(words);
  for (const char* name : {"0, all at once", "4, all at once", "4, trim, all at once"}) {
    EXPECT_THAT(text.out, HasSubstr("\ndrafts " + std::string(name) + "\n"));
    EXPECT_THAT(read_file(page), HasSubstr(name));
  }
  Words as_json = words;
  as_json.emplace_back("--json");
  const json report = serve_well(as_json).json();
  ASSERT_EQ(report["series"].size(), 3U) << "plain decoding has no rows";
  EXPECT_TRUE(report["series"][0]["draft_rows"].is_null());
  EXPECT_EQ(report["series"][1]["draft_rows"], "exact");
  EXPECT_EQ(report["series"][2]["draft_rows"], "trim");
  for (const json& series : report["series"]) EXPECT_EQ(series["different"], 0) << series["draft_rows"];
  EXPECT_NE(report["series"][1]["acceptance_by_position"], report["series"][2]["acceptance_by_position"]);
}

TEST(BenchServe, SamplesAndSharesAsItIsTold) {
  const TemporaryFolder folder;
  const std::string prompts = (folder.path() / "ids.json").string();
  write_file(prompts, "[[" + repeated_ids(40) + "]]");
  const Words words{"--rate",        "inf", "--token-ids-file", prompts,  "--prefill-chunk", "16",    "--prefix-spacing", "16",
                    "--temperature", "0.8", "--draft-sampling", "greedy", "--check",         "--json"};
  const json shared = serve_well(words).json()["series"][1];
  EXPECT_EQ(shared["different"], 0);
  EXPECT_GT(shared["cached_prompt_tokens"], 0) << "requests have the prompt in common";
  Words alone = words;
  alone.insert(alone.end(), {"--prefix-cache", "off", "--overcommit", "--kv-cache-tokens", "96"});
  const json tight = serve_well(alone).json()["series"][1];
  EXPECT_EQ(tight["different"], 0);
  EXPECT_EQ(tight["cached_prompt_tokens"], 0);
}

TEST(BenchServe, ForcesAcceptCounts) {
  const json report = serve_well({"--rate", "inf", "--speculative-tokens", "3", "--max-tokens", "22", "--force-accept", "3,0,1",
                                  "--check", "--json"})
                          .json();
  const json& series = report["series"][0];
  EXPECT_EQ(series["different"], 0);
  // Of each request: 21 tokens after the first, in rounds of 4, 1, 2, three times.
  EXPECT_THAT(series["tokens_per_round"].get<std::vector<int>>(), ElementsAre(18, 18, 0, 18));
  EXPECT_NEAR(series["acceptance_by_position"][0].get<double>(), 2.0 / 3, 1e-9);
  EXPECT_NEAR(series["acceptance_by_position"][2].get<double>(), 1.0 / 3, 1e-9);
  EXPECT_NEAR(series["mean_tokens_per_round"].get<double>(), 7.0 / 3, 1e-9);
}

TEST(BenchServe, TakesMessagesInTurn) {
  const TemporaryFolder folder;
  const std::string lines = (folder.path() / "messages.txt").string();
  const std::string objects = (folder.path() / "messages.jsonl").string();
  write_file(lines, "What is a violin?\n\nWhat is a kludge?\n");
  write_file(objects, "{\"prompt\": \"What is a violin?\"}\n{\"prompt\": \"What is a kludge?\", \"id\": 2}\n");
  const json of_lines = serve_well({"--rate", "inf", "--prompts", lines, "--check", "--json"}).json();
  const json of_objects = serve_well({"--rate", "inf", "--prompts", objects, "--check", "--json"}).json();
  EXPECT_GT(of_lines["prompt_tokens"].get<int>(), 0);
  EXPECT_EQ(of_lines["prompt_tokens"], of_objects["prompt_tokens"]);
  for (const char* broken : {"{\"prompt\": 1}\n", "{\"text\": \"a\"}\n", "What is it?\n", "[]\n"}) {
    write_file(objects, broken);
    const ToolRun run = run_tool(serve_words({"--prompts", objects}));
    EXPECT_EQ(run.status, 1) << broken;
    EXPECT_THAT(run.err, HasSubstr("messages.jsonl"));
  }
}

TEST(BenchServe, WritesAReport) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "serve.html";
  write_file(path, "old");
  const ToolRun run = serve_well({"--rate", "inf", "--speculative-tokens", "0,3", "--report", path.string()});
  EXPECT_THAT(run.out, HasSubstr("drafts 3, all at once"));
  const std::string html = read_file(path);
  EXPECT_TRUE(html.starts_with("<!DOCTYPE html>"));
  for (const char* part : {"3, all at once", "--max-tokens 6:14", "id=\"acceptance\"", "prefers-color-scheme"}) {
    EXPECT_THAT(html, HasSubstr(part));
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1) << "no partial file is left";
}

TEST(BenchServe, RefusesAReportThatCannotBeWritten) {
  const TemporaryFolder folder;
  const auto missing = folder.path() / "missing" / "serve.html";
  for (const auto& path : {missing, folder.path()}) {
    const ToolRun run = run_tool(serve_words({"--report", path.string()}));
    EXPECT_EQ(run.status, 1);
    EXPECT_THAT(run.out, IsEmpty());
    EXPECT_THAT(run.err, HasSubstr(path.string()));
  }
  // Whatever else is wrong leaves nothing behind either.
  EXPECT_EQ(run_tool(serve_words({"--report", (folder.path() / "a.html").string(), "--max-tokens", "5000"})).status, 1);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace foretoken::test
