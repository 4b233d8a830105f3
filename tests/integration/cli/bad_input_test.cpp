// Whatever is wrong: a clear error on stderr, nothing on stdout, a non-zero status, nothing left behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/integration/cli/tool.h"

namespace foretoken::test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;
using Words = std::vector<std::string>;

struct BadCall {
  std::string name;
  Words words;
  int status;
  Words message;  // parts of it
};

class BadInput : public ::testing::TestWithParam<BadCall> {};

void expect_failure(const ToolRun& run, int status, const Words& message) {
  EXPECT_EQ(run.status, status);
  EXPECT_THAT(run.out, IsEmpty());
  EXPECT_THAT(run.err, HasSubstr(status == 2 ? "foretoken: usage error: " : "foretoken: "));
  for (const std::string& part : message) EXPECT_THAT(run.err, HasSubstr(part));
}

TEST_P(BadInput, IsRefused) { expect_failure(run_tool(GetParam().words), GetParam().status, GetParam().message); }

const std::vector<BadCall>& bad_calls() {
  static const std::vector<BadCall> calls{
      {"NoCommand", {}, 2, {"no command"}},
      {"UnknownCommand", {"genrate"}, 2, {"unknown command 'genrate'", "did you mean 'generate'"}},
      {"UnknownSecondWord", {"bench", "decoed"}, 2, {"bench decode"}},
      {"UnknownOption", {"generate", "--promt", "x"}, 2, {"unknown option '--promt'", "did you mean '--prompt'"}},
      {"NoPrompt", {"generate"}, 2, {"--prompt, --chat, --prompt-file and --token-ids"}},
      {"TwoPrompts",
       {"generate", "--prompt", "a", "--token-ids", "1"},
       2,
       {"more than one kind of prompt: --prompt and --token-ids"}},
      {"PromptsFileAndChat", {"generate", "--chat", "a", "--prompts", "b"}, 2, {"--chat and --prompts"}},
      {"EmptyOneOfTwo", {"generate", "--prompt", "a", "--prompt", ""}, 1, {"prompt 2 is empty"}},
      {"SecondListOfIds", {"generate", "--token-ids", "1", "--token-ids", "2,x"}, 2, {"'x' as item 2"}},
      {"IdOfSecondPromptTooLarge", {"generate", "--token-ids", "1", "--token-ids", "4096"}, 1, {"prompt 2", "0 .. 4095"}},
      {"NoPromptsInFile", {"generate", "--prompts", "/dev/null"}, 1, {"there are no prompts"}},
      {"NoSuchTokenIdsFile", {"generate", "--token-ids-file", "/no/such/file"}, 1, {"/no/such/file"}},
      {"SystemWithTokenIds", {"generate", "--token-ids", "1", "--system", "b"}, 2, {"--system"}},
      {"OptionThatDoesNotRepeat", {"generate", "--prompt", "a", "--seed", "1", "--seed", "2"}, 2, {"--seed"}},
      {"CompareTwo", {"generate", "--prompt", "a", "--prompt", "b", "--compare"}, 2, {"--compare takes one prompt"}},
      {"TooManySequences", {"generate", "--prompt", "a", "--max-sequences", "65"}, 2, {"from 1 to 64", "'65'"}},
      {"NoSequences", {"generate", "--prompt", "a", "--max-sequences", "0"}, 2, {"from 1 to 64", "'0'"}},
      {"NegativeKvCache", {"generate", "--prompt", "a", "--kv-cache-tokens", "-1"}, 2, {"--kv-cache-tokens", "'-1'"}},
      {"KvCacheTooSmall",
       {"generate", "--prompt", "a", "--kv-cache-tokens", "16", "--max-tokens", "100", "--quiet"},
       1,
       {"never fits into the KV cache"}},
      {"OvercommitTakesNoValue", {"generate", "--prompt", "a", "--overcommit=on"}, 2, {"--overcommit"}},
      {"PrefixCacheMaybe", {"generate", "--prompt", "a", "--prefix-cache", "maybe"}, 2, {"auto, on, off", "'maybe'"}},
      {"NegativeSnapshots", {"generate", "--prompt", "a", "--prefix-snapshots", "-1"}, 2, {"--prefix-snapshots", "'-1'"}},
      {"SnapshotsAtNoDistance", {"generate", "--prompt", "a", "--prefix-spacing", "0"}, 2, {"--prefix-spacing", "'0'"}},
      {"PrefixTurnsSometimes", {"generate", "--prompt", "a", "--prefix-turns", "yes"}, 2, {"--prefix-turns", "off, on"}},
      {"PrefixDraftRowsTrim", {"bench", "serve", "--prefix-draft-rows", "trim"}, 2, {"--prefix-draft-rows", "'trim'"}},
      {"DraftPromptRowsFew", {"generate", "--prompt", "a", "--draft-prompt-rows", "few"}, 2, {"--draft-prompt-rows", "'few'"}},
      {"DraftPromptRowsOfABench", {"bench", "acceptance", "--draft-prompt-rows", "1"}, 2, {"--draft-prompt-rows", "'1'"}},
      {"ServeOtherRows", {"bench", "serve", "--draft-rows", "exact,loose"}, 2, {"--draft-rows", "'loose'"}},
      {"ServeChecksSampledDrafts",
       {"bench", "serve", "--temperature", "1", "--check"},
       2,
       {"--check", "--draft-sampling greedy"}},
      {"ServeForcesSampledDrafts",
       {"bench", "serve", "--temperature", "1", "--force-accept", "1"},
       2,
       {"--force-accept", "--draft-sampling greedy"}},
      {"ServeAtNoTemperature", {"bench", "serve", "--temperature", "-1"}, 2, {"--temperature", "'-1'"}},
      {"EmptyPrompt", {"generate", "--prompt", ""}, 1, {"the prompt is empty"}},
      {"EmptyChat", {"generate", "--chat", ""}, 1, {"the prompt is empty"}},
      {"EmptyPromptFile", {"generate", "--prompt-file", "/dev/null"}, 1, {"the prompt is empty"}},
      {"NoSuchPromptFile", {"generate", "--prompt-file", "/no/such/file"}, 1, {"/no/such/file", "No such file"}},
      {"PromptFileIsAFolder", {"generate", "--prompt-file", "/tmp"}, 1, {"/tmp"}},
      {"SystemWithoutChat", {"generate", "--prompt", "a", "--system", "b"}, 2, {"--system"}},
      {"TooManyDrafts", {"generate", "--prompt", "a", "--speculative-tokens", "16"}, 2, {"from 0 to 15", "'16'"}},
      {"NegativeDrafts", {"generate", "--prompt", "a", "--speculative-tokens", "-1"}, 2, {"from 0 to 15", "'-1'"}},
      {"DraftsAreNoNumber", {"generate", "--prompt", "a", "--speculative-tokens", "3x"}, 2, {"'3x'"}},
      {"NoTokens", {"generate", "--prompt", "a", "--max-tokens", "0"}, 2, {"at least 1", "'0'"}},
      {"TokenIdIsNoNumber", {"generate", "--token-ids", "1,,2"}, 2, {"item 2"}},
      {"TokenIdTooLarge", {"generate", "--token-ids", "1,4096"}, 1, {"token 1 of the prompt", "0 .. 4095", "4096"}},
      {"TokenIdNegative", {"generate", "--token-ids", "-5"}, 1, {"token 0 of the prompt", "-5"}},
      {"PromptLongerThanContext", {"generate", "--token-ids", repeated_ids(5000)}, 1, {"fewer than 4096", "5000"}},
      {"UnknownBackend", {"generate", "--prompt", "a", "--backend", "abacus"}, 1, {"no such backend", "cpu", "abacus"}},
      {"UnknownDevice", {"generate", "--prompt", "a", "--backend", "cpu:7"}, 1, {"no such device", "cpu:7"}},
      {"UnknownPrecision", {"generate", "--prompt", "a", "--prefill-precision", "f16"}, 2, {"auto, f32, bf16", "'f16'"}},
      {"UnknownActivations", {"generate", "--prompt", "a", "--activations", "f16"}, 2, {"auto, f32, bf16", "'f16'"}},
      {"ActivationsThatTheDeviceLacks",
       {"generate", "--prompt", "a", "--backend", "cpu", "--activations", "bf16"},
       1,
       {"activations", "expected F32", "got BF16"}},
      {"UnknownKvDtype", {"generate", "--prompt", "a", "--kv-dtype", "fp4"}, 2, {"--kv-dtype", "auto, f32, bf16, fp8", "'fp4'"}},
      {"UnknownDraftKvDtype", {"bench", "decode", "--draft-kv-dtype", "e5m2"}, 2, {"--draft-kv-dtype", "bf16, fp8", "'e5m2'"}},
      {"UnknownInspectKvDtype", {"inspect", "synth:qwen3.5-0.8b", "--kv-dtype", "f16"}, 2, {"--kv-dtype", "bf16, fp8", "'f16'"}},
      {"NoSuchModel", {"generate", "--model", "/no/such/model", "--prompt", "a"}, 1, {"no such model", "/no/such/model"}},
      {"ModelIsAFile", {"generate", "--model", "/dev/null", "--prompt", "a"}, 1, {"/dev/null"}},
      {"ModelWithoutConfig", {"generate", "--model", "/dev", "--prompt", "a"}, 1, {"config.json"}},
      {"UnknownSynth", {"inspect", "synth:gpt"}, 1, {"qwen3.5-0.8b", "gpt"}},
      {"SynthTakesNoText", {"generate", "--model", "synth:qwen3.5-0.8b", "--prompt", "a"}, 1, {"no tokenizer", "--token-ids"}},
      {"CompareWithoutDrafts", {"generate", "--prompt", "a", "--compare", "--speculative-tokens", "0"}, 2, {"--compare"}},
      {"InspectWithoutModel", {"inspect"}, 2, {"no model"}},
      {"SynthWithoutOutput", {"synth", "--like", "qwen3.5-0.8b"}, 2, {"--output is required"}},
      {"QuantizeWithoutFormat", {"quantize", "--model", "a", "--output", "b"}, 2, {"--format", "fp8-block, fp8-row or nvfp4"}},
      {"QuantizeIntoOther", {"quantize", "--model", "a", "--output", "b", "--format", "int4"}, 2, {"--format", "'int4'"}},
      {"QuantizeOtherScope",
       {"quantize", "--model", "a", "--output", "b", "--format", "nvfp4", "--scope", "head"},
       2,
       {"--scope", "lm-head", "'head'"}},
      {"QuantizeScaleOfRows",
       {"quantize", "--model", "a", "--output", "b", "--format", "fp8-row", "--scale-dtype", "bf16"},
       2,
       {"--scale-dtype", "fp8-block"}},
      {"UnknownOperator", {"conformance", "--op", "transmogrify"}, 1, {"rms_norm", "transmogrify"}},
      {"BenchBeyondContext", {"bench", "decode", "--prompt-tokens", "4000", "--quiet"}, 1, {"4096", "4000 and 128"}},
      {"ServeAtNoRate", {"bench", "serve", "--rate", "2,0"}, 2, {"--rate", "above 0", "'0' as item 2"}},
      {"ServeAtARateThatIsNoNumber", {"bench", "serve", "--rate", "nan"}, 2, {"--rate", "'nan'"}},
      {"ServeTooManyAtOnce", {"bench", "serve", "--max-sequences", "65"}, 2, {"from 1 to 64", "'65'"}},
      {"ServeRangeThatFalls", {"bench", "serve", "--prompt-tokens", "9:3"}, 2, {"--prompt-tokens", "LO:HI", "'9:3'"}},
      {"ServeRangeOfThree", {"bench", "serve", "--max-tokens", "1:2:3"}, 2, {"--max-tokens", "'1:2:3'"}},
      {"ServeTooManyDrafts", {"bench", "serve", "--speculative-tokens", "auto,16"}, 2, {"--speculative-tokens", "16"}},
      {"ServeLadderThatFalls", {"bench", "serve", "--speculative-tokens", "8:2,4:3"}, 2, {"--speculative-tokens", "4:3"}},
      {"ServeForcesNothing",
       {"bench", "serve", "--speculative-tokens", "0", "--force-accept", "1"},
       2,
       {"--force-accept", "above 0"}},
      {"ServeReportNowhere", {"bench", "serve", "--report", ""}, 2, {"--report"}},
      {"ServeTwoKindsOfPrompts", {"bench", "serve", "--prompts", "a", "--token-ids-file", "b"}, 2, {"exclude each other"}},
      {"ServePromptsOfALength", {"bench", "serve", "--prompts", "a", "--prompt-tokens", "4"}, 2, {"--prompt-tokens"}},
      {"ServeNoSuchPrompts", {"bench", "serve", "--prompts", "/no/such/file", "--quiet"}, 1, {"/no/such/file"}},
      {"ServeBeyondContext", {"bench", "serve", "--max-tokens", "4000:5000", "--quiet"}, 1, {"4096", "context"}},
      {"BenchTooManyDrafts", {"bench", "decode", "--speculative-tokens", "1,16"}, 2, {"'16' as item 2"}},
  };
  return calls;
}

INSTANTIATE_TEST_SUITE_P(Calls, BadInput, ::testing::ValuesIn(bad_calls()), [](const auto& call) { return call.param.name; });

TEST(BadBackend, FromTheEnvironmentIsRefused) {
  const ToolRun run = run_tool({"generate", "--prompt", "a"}, {.environment = {{"FORETOKEN_BACKEND", "abacus"}}});
  expect_failure(run, 1, {"no such backend", "abacus"});
}

class BadCheckpoint : public ::testing::Test {
 protected:
  ToolRun generate(const std::filesystem::path& model) {
    return run_tool({"generate", "--model", model.string(), "--prompt", "a", "--max-tokens", "1", "--json"});
  }
  TemporaryFolder folder_;
};

TEST_F(BadCheckpoint, TruncatedWeights) {
  const auto model = copy_checkpoint("tiny-dense", folder_.path());
  const std::string weights = read_file(model / "model.safetensors");
  for (const size_t bytes : {size_t{0}, size_t{7}, size_t{100}, weights.size() - 1}) {
    write_file(model / "model.safetensors", weights.substr(0, bytes));
    expect_failure(generate(model), 1, {"model.safetensors"});
  }
}

TEST_F(BadCheckpoint, HostileHeaders) {
  const auto model = copy_checkpoint("tiny-dense", folder_.path());
  for (const std::string header :
       {R"({"a":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]},"b":{"dtype":"BF16","shape":[2],"data_offsets":[2,6]}})",
        R"({"a":{"dtype":"BF16","shape":[9223372036854775807,4],"data_offsets":[0,4]}})",
        R"({"a":{"dtype":"BF16","shape":[-1],"data_offsets":[0,4]}})", "[[[[[[[[", "{}"}) {
    std::string file(8, '\0');
    for (size_t i = 0; i < 8; ++i) file[i] = static_cast<char>((header.size() >> (8 * i)) & 0xff);
    write_file(model / "model.safetensors", file + header + std::string(6, '\0'));
    expect_failure(generate(model), 1, {});
  }
  write_file(model / "model.safetensors", std::string(8, '\xff') + "{}");
  expect_failure(generate(model), 1, {"model.safetensors"});
}

TEST_F(BadCheckpoint, MissingShard) {
  const auto model = copy_checkpoint("tiny-moe", folder_.path());
  std::filesystem::remove(model / "model-00002-of-00002.safetensors");
  expect_failure(generate(model), 1, {"model-00002-of-00002.safetensors"});
}

TEST_F(BadCheckpoint, TensorsThatDoNotFitTheConfig) {
  const auto model = copy_checkpoint("tiny-dense", folder_.path());
  auto config = nlohmann::json::parse(read_file(model / "config.json"));
  config["text_config"]["intermediate_size"] = 513;
  write_file(model / "config.json", config.dump());
  expect_failure(generate(model), 1, {"format error", "mlp", "513"});
}

TEST_F(BadCheckpoint, AbsurdConfigValues) {
  const auto model = copy_checkpoint("tiny-dense", folder_.path());
  const auto good = nlohmann::json::parse(read_file(model / "config.json"));
  const nlohmann::json absurd{
      {"hidden_size", -1}, {"rms_norm_eps", -1.0}, {"num_hidden_layers", 1e300}, {"head_dim", "64"}, {"vocab_size", 0}};
  for (const auto& [key, value] : absurd.items()) {
    auto config = good;
    config["text_config"][key] = value;
    write_file(model / "config.json", config.dump());
    expect_failure(generate(model), 1, {"config.json", key});
  }
  write_file(model / "config.json", R"({"model_type": "qwen3_5", "text_config": {"rms_norm_eps": NaN}})");
  expect_failure(generate(model), 1, {"config.json"});
}

TEST_F(BadCheckpoint, MergeThatNamesNoToken) {
  const auto model = copy_checkpoint("tiny-dense", folder_.path());
  auto tokenizer = nlohmann::json::parse(read_file(model / "tokenizer.json"));
  tokenizer["model"]["merges"][0] = nlohmann::json::array({"no such", "token"});
  write_file(model / "tokenizer.json", tokenizer.dump());
  expect_failure(generate(model), 1, {"format error", "tokenizer.json", "no such"});
}

TEST(BadSynth, LeavesNothingBehind) {
  const TemporaryFolder folder;
  const auto output = folder.path() / "new" / "checkpoint";
  expect_failure(run_tool({"synth", "--like", "qwen9", "--output", output.string()}), 1, {"qwen9"});
  expect_failure(run_tool({"synth", "--like", "qwen3.5-0.8b", "--layers", "25", "--output", output.string()}), 1, {"25"});
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "new"));

  write_file(folder.path() / "mine.txt", "mine");
  expect_failure(run_tool({"synth", "--like", "qwen3.5-0.8b", "--output", folder.path().string()}), 1,
                 {"new or empty directory"});
  EXPECT_EQ(read_file(folder.path() / "mine.txt"), "mine");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

}  // namespace
}  // namespace foretoken::test
