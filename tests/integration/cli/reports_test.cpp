// devices, inspect, synth, bench decode and conformance.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/integration/cli/tool.h"

namespace foretoken::test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Words = std::vector<std::string>;

ToolRun run_well(const Words& words) {
  ToolRun run = run_tool(words);
  EXPECT_EQ(run.status, 0) << run.err;
  return run;
}

TEST(Devices, NameTheCpuAndGiveAReasonForEveryNo) {
  const json backends = run_well({"devices", "--json"}).json()["backends"];
  ASSERT_FALSE(backends.empty());
  EXPECT_EQ(backends[0]["name"], "cpu");
  EXPECT_EQ(backends[0]["origin"], "built in");
  const json& device = backends[0]["devices"][0];
  EXPECT_EQ(device["selector"], "cpu:0");
  EXPECT_GT(device["memory_bytes"].get<uint64_t>(), 0U);
  ASSERT_FALSE(device["weight_formats"].empty());
  for (const json& format : device["weight_formats"]) {
    for (const char* what : {"storable", "fast", "native"}) {
      if (format[what]["available"].get<bool>()) continue;
      EXPECT_FALSE(format[what]["reason"].get<std::string>().empty()) << format;
    }
  }
  EXPECT_THAT(run_well({"devices"}).out, HasSubstr("cpu:0"));
}

TEST(Inspect, DescribesACheckpoint) {
  const json report = run_well({"inspect", bundled("tiny-moe").string(), "--json"}).json();
  EXPECT_EQ(report["family"], "qwen3_5_moe");
  EXPECT_EQ(report["shapes"]["num_experts"], 8);
  EXPECT_EQ(report["tensors"].size(), 91U);
  EXPECT_TRUE(report["mtp"]["present"].get<bool>());
  EXPECT_TRUE(report["mtp"]["reason"].is_null());
  uint64_t bytes = 0;
  for (const json& module : report["modules"]) bytes += module["bytes"].get<uint64_t>();
  const json& memory = report["memory_bytes"];
  EXPECT_EQ(memory["target_weights"].get<uint64_t>() + memory["draft_weights"].get<uint64_t>(), bytes);
  EXPECT_GT(report["step_bytes"]["target"].get<uint64_t>(), report["step_bytes"]["draft"].get<uint64_t>());
  const std::string text = run_well({"inspect", bundled("tiny-moe").string(), "--tensors"}).out;
  for (const char* part : {"qwen3_5_moe", "shared_expert", "draft head", "mtp.fc.weight"}) EXPECT_THAT(text, HasSubstr(part));
}

TEST(Inspect, SizesTheKvCachesByTheirDtypes) {
  const auto memory = [](const Words& options) {
    Words words{"inspect", bundled("tiny-dense").string(), "--context", "1000", "--json"};
    words.insert(words.end(), options.begin(), options.end());
    return run_well(words).json()["memory_bytes"];
  };
  const json half = memory({});
  const json both = memory({"--kv-dtype", "fp8"});
  const json drafter = memory({"--draft-kv-dtype", "fp8"});
  EXPECT_EQ(half["draft_kv_dtype"], "bf16");
  EXPECT_EQ(both["kv_dtype"], "fp8");
  EXPECT_EQ(both["draft_kv_dtype"], "fp8") << "auto: like the target's";
  EXPECT_EQ(both["target_kv"].get<uint64_t>() * 2, half["target_kv"].get<uint64_t>());
  EXPECT_EQ(both["draft_kv"].get<uint64_t>() * 2, half["draft_kv"].get<uint64_t>());
  EXPECT_EQ(drafter["kv_dtype"], "bf16");
  EXPECT_EQ(drafter["target_kv"], half["target_kv"]);
  EXPECT_EQ(drafter["draft_kv"], both["draft_kv"]);
  EXPECT_EQ(half["total"].get<uint64_t>() - drafter["total"].get<uint64_t>(), drafter["draft_kv"].get<uint64_t>());
}

TEST(Inspect, SaysWhichFormatsAModelMixes) {
  const json report = run_well({"inspect", bundled("tiny-next-fp8").string(), "--json"}).json();
  uint64_t experts = 0;
  for (const json& module : report["modules"]) {
    if (module["of"] == "draft head" && module["module"] == "experts") {
      EXPECT_EQ(module["precision"], "fp8-block");
      EXPECT_EQ(module["bytes"].get<uint64_t>(), 4 * module["bytes_per_step"].get<uint64_t>()) << "two of eight are read";
      experts += module["bytes"].get<uint64_t>();
    }
  }
  EXPECT_GT(experts, 8U * 3 * 96 * 192) << "codes and scales";
  EXPECT_GT(report["linear_weight_bytes"]["draft"]["fp8-block"].get<uint64_t>(), experts);
  EXPECT_GT(report["linear_weight_bytes"]["target"]["bf16"].get<uint64_t>(), 0U);
  EXPECT_THAT(run_well({"inspect", bundled("tiny-next-fp8").string()}).out, HasSubstr("mixed: fp8-block"));
}

TEST(Inspect, SaysWhyThereIsNoHead) {
  const TemporaryFolder folder;
  const json mtp = run_well({"inspect", checkpoint_without_head(folder.path()).string(), "--json"}).json()["mtp"];
  EXPECT_FALSE(mtp["present"].get<bool>());
  EXPECT_FALSE(mtp["reason"].get<std::string>().empty());
}

TEST(Synth, WritesACheckpointThatInspectReadsLikeItsSpec) {
  const TemporaryFolder folder;
  const std::string output = (folder.path() / "cut").string();
  EXPECT_THAT(run_well({"synth", "--like", "qwen3.5-0.8b", "--layers", "1", "--seed", "5", "--output", output}).err, IsEmpty());
  json written = run_well({"inspect", output, "--json"}).json();
  json in_memory = run_well({"inspect", "synth:qwen3.5-0.8b:layers=1:seed=5", "--json"}).json();
  written.erase("model");
  in_memory.erase("model");
  EXPECT_EQ(written, in_memory);
}

TEST(BenchDecode, MeasuresEachNumberOfDrafts) {
  const ToolRun run = run_well({"bench", "decode", "--speculative-tokens", "0,2,1", "--prompt-tokens", "20", "--max-tokens", "24",
                                "--repeat", "2", "--json", "--quiet"});
  EXPECT_THAT(run.err, IsEmpty());
  const json report = run.json();
  EXPECT_EQ(report["repeat"], 2);
  EXPECT_GT(report["prefill_tokens_per_second"].get<double>(), 0.0);
  EXPECT_GT(report["read_bandwidth_bytes_per_second"].get<double>(), 1e8);
  EXPECT_EQ(report["plain"]["steps"], 23);
  EXPECT_GT(report["plain"]["tokens_per_second"].get<double>(), 0.0);
  EXPECT_GT(report["plain"]["bandwidth_share"].get<double>(), 0.0);
  EXPECT_EQ(report["plain"]["verify_of_plain_step"], 1.0);
  EXPECT_THAT(report["read_bandwidth_method"].get<std::string>(), HasSubstr("median of 2 measurements"));
  ASSERT_EQ(report["speculative"].size(), 2U);
  EXPECT_EQ(report["speculative"][0]["speculative_tokens"], 2);
  for (const json& series : report["speculative"]) {
    EXPECT_TRUE(series["identical"].get<bool>());
    EXPECT_GE(series["mean_tokens_per_round"].get<double>(), 1.0);
    EXPECT_GT(series["verify_of_plain_step"].get<double>(), 0.0);
    const double host_ms = series["timing_ms"]["host"].get<double>();
    EXPECT_NEAR(series["host_us_per_step"].get<double>() * series["steps"].get<double>(), 1000.0 * host_ms, 1e-3);
    EXPECT_GT(series["bytes_per_step"].get<uint64_t>(), report["plain"]["bytes_per_step"].get<uint64_t>());
  }
}

TEST(BenchDecode, SaysWhichCachesItMeasured) {
  const json report = run_well({"bench", "decode", "--speculative-tokens", "2", "--prompt-tokens", "20", "--max-tokens", "24",
                                "--repeat", "1", "--kv-dtype", "f32", "--draft-kv-dtype", "fp8", "--json"})
                          .json();
  EXPECT_EQ(report["kv_dtype"], "f32");
  EXPECT_EQ(report["draft_kv_dtype"], "fp8");
  EXPECT_TRUE(report["speculative"][0]["identical"].get<bool>());
}

TEST(BenchDecode, ForcesAcceptCounts) {
  const json report = run_well({"bench", "decode", "--speculative-tokens", "3", "--prompt-tokens", "20", "--max-tokens", "22",
                                "--repeat", "1", "--force-accept", "3,0,1", "--json"})
                          .json();
  const json& series = report["speculative"][0];
  // 21 tokens after the first, in rounds of 4, 1, 2, 4, 1, 2, 4, 1, 2.
  EXPECT_EQ(series["steps"], 9);
  EXPECT_NEAR(series["mean_tokens_per_round"].get<double>(), 21.0 / 9.0, 1e-9);
  EXPECT_TRUE(series["identical"].get<bool>());
}

TEST(BenchAcceptance, ComparesCombinationsWithTheCheckpoint) {
  const TemporaryFolder folder;
  const std::string prompts = (folder.path() / "prompts.txt").string();
  write_file(prompts, "What is a garbage collector?\n\nWhat is a violin?\n");
  const Words words{"bench", "acceptance",        "--prompts", prompts,           "--max-tokens",
                    "24",    "--draft-precision", "auto,fp8",  "--draft-lm-head", "checkpoint,fp8"};
  Words as_json = words;
  as_json.insert(as_json.end(), {"--json", "--quiet"});
  const ToolRun run = run_well(as_json);
  EXPECT_THAT(run.err, IsEmpty());
  const json report = run.json();
  EXPECT_EQ(report["prompts"], 2);
  EXPECT_GT(report["starts"].get<int>(), 0);
  EXPECT_EQ(report["starts"].get<int>(), report["tokens"].get<int>() - 2 * 5);
  ASSERT_EQ(report["combinations"].size(), 4U);
  const json& checkpoint = report["combinations"][0];
  EXPECT_EQ(checkpoint["draft_precision"]["requested_lm_head"], "checkpoint");
  EXPECT_EQ(checkpoint["loss"], json({0.0, 0.0, 0.0, 0.0, 0.0}));
  for (const json& combination : report["combinations"]) {
    for (size_t j = 0; j < 5; ++j) {
      const double share = combination["prefix_acceptance"][j].get<double>();
      EXPECT_NEAR(combination["loss"][j].get<double>(), checkpoint["prefix_acceptance"][j].get<double>() - share, 1e-12);
      EXPECT_LE(share, j == 0 ? 1.0 : combination["prefix_acceptance"][j - 1].get<double>());
    }
  }
  const json& narrow = report["combinations"][3];
  EXPECT_EQ(narrow["draft_precision"]["stored"]["lm_head"], "fp8-block");
  EXPECT_LT(narrow["draft_step_bytes"].get<uint64_t>(), checkpoint["draft_step_bytes"].get<uint64_t>());
  EXPECT_THAT(run_well(words).out, HasSubstr("checkpoint"));
}

TEST(BenchAcceptance, TakesTokenIdsAndRefusesWhatIsNone) {
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "ids.json").string();
  write_file(file, "[[1, 2, 3], [4]]");
  const Words words{"bench", "acceptance",      "--token-ids-file", file,    "--max-tokens", "8", "--draft-precision",
                    "auto",  "--draft-lm-head", "checkpoint",       "--json"};
  const json report = run_well(words).json();
  EXPECT_EQ(report["prompts"], 2);
  EXPECT_EQ(report["combinations"].size(), 1U);
  for (const char* broken : {"[[1, 2", "[1, 2]", "{}", "[[4096]]", "[[-1]]", "[[]]", "[]"}) {
    write_file(file, broken);
    const ToolRun run = run_tool(words);
    EXPECT_EQ(run.status, 1) << broken;
    EXPECT_THAT(run.err, HasSubstr("invalid argument")) << broken;
  }
  EXPECT_EQ(run_tool({"bench", "acceptance", "--prompts", file, "--token-ids-file", file}).status, 2);
  EXPECT_EQ(run_tool({"bench", "acceptance", "--draft-precision", "auto,int4"}).status, 2);
}

TEST(Conformance, RunsOneOperatorAndSaysHowItWent) {
  const json report = run_well({"conformance", "--op", "rms_norm", "--every", "5", "--json"}).json();
  EXPECT_TRUE(report["passed"].get<bool>());
  EXPECT_FALSE(report["entries"].empty());
  EXPECT_THAT(run_well({"conformance", "--op", "argmax", "--backend", "cpu"}).out, HasSubstr("all held"));
  EXPECT_EQ(run_tool({"conformance", "--op", "argmax", "--case", "no such case"}).status, 1);
}

}  // namespace
}  // namespace foretoken::test
