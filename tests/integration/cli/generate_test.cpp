#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "tests/integration/cli/tool.h"

namespace foretoken::test {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using Words = std::vector<std::string>;

constexpr const char* kPrompt = "<|im_start|>user\nWhat does \"eccentric\" mean?<|im_end|>\n<|im_start|>assistant\n";
constexpr const char* kQuestion = "What does \"eccentric\" mean?";

json generate_json(Words words) {
  words.insert(words.begin(), "generate");
  words.insert(words.end(), {"--json", "--quiet"});
  const ToolRun run = run_tool(words);
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.err, IsEmpty());
  return run.json();
}

Words keys_of(const json& object) {
  Words keys;
  for (const auto& [key, value] : object.items()) keys.push_back(key);
  return keys;
}

TEST(Generate, JsonHasExactlyTheDocumentedMembers) {
  const json result = generate_json({"--prompt", kPrompt});
  EXPECT_THAT(keys_of(result), ElementsAre("activations", "backend", "cached_prompt_tokens", "decode_tokens_per_second",
                                           "draft_kv_dtype", "finish_reason", "kv_dtype", "model", "output_token_ids",
                                           "preemptions", "prompt_tokens", "speculation", "text", "timing_ms"));
  EXPECT_THAT(keys_of(result["timing_ms"]), ElementsAre("decode", "draft", "host", "load", "prefill", "verify"));
  EXPECT_THAT(keys_of(result["speculation"]),
              ElementsAre("acceptance_by_position", "accepted", "accepted_per_round", "draft_precision", "drafted", "enabled",
                          "mean_tokens_per_round", "rounds", "speculative_tokens"));
  EXPECT_EQ(result["model"], bundled("tiny-dense").string());
  EXPECT_EQ(result["backend"], "cpu");
  EXPECT_EQ(result["activations"], "f32");
  EXPECT_EQ(result["finish_reason"], "stop");
  EXPECT_TRUE(result["text"].is_string());
  const json& timing = result["timing_ms"];
  EXPECT_GT(timing["load"].get<double>(), 0.0);
  EXPECT_GT(timing["prefill"].get<double>(), 0.0);
  const double parts = timing["draft"].get<double>() + timing["verify"].get<double>() + timing["host"].get<double>();
  EXPECT_NEAR(timing["decode"].get<double>(), parts, 1e-6 + 0.01 * parts);
}

TEST(Generate, AutomaticDepthAndLaddersChangeNoText) {
  const json fixed = generate_json({"--prompt", kPrompt, "--max-tokens", "60"});
  for (const std::string depth : {"auto", "1:4,8:2"}) {
    const json result = generate_json({"--prompt", kPrompt, "--max-tokens", "60", "--speculative-tokens", depth});
    EXPECT_EQ(result["output_token_ids"], fixed["output_token_ids"]) << depth;
    EXPECT_EQ(result["speculation"]["speculative_tokens"], depth == "auto" ? 7 : 4);
    EXPECT_GT(result["speculation"]["drafted"], 0) << depth;
  }
  EXPECT_THAT(run_tool({"generate", "--prompt", "x", "--speculative-tokens", "often"}).err, HasSubstr("--speculative-tokens"));
}

TEST(Generate, SpeculationFiguresAgreeWithEachOther) {
  const json result = generate_json({"--prompt", kPrompt});
  const json& speculation = result["speculation"];
  const auto accepted = speculation["accepted_per_round"].get<std::vector<int>>();
  EXPECT_TRUE(speculation["enabled"].get<bool>());
  EXPECT_EQ(speculation["speculative_tokens"], 3);
  EXPECT_EQ(speculation["rounds"], accepted.size());
  EXPECT_EQ(speculation["drafted"], 3 * accepted.size());
  const int total = std::accumulate(accepted.begin(), accepted.end(), 0);
  EXPECT_EQ(speculation["accepted"], total);
  const auto rounds = static_cast<double>(accepted.size());
  EXPECT_NEAR(speculation["mean_tokens_per_round"].get<double>(), 1.0 + total / rounds, 1e-12);
  for (size_t position = 1; position <= 3; ++position) {
    const auto reached = std::ranges::count_if(accepted, [&](int count) { return count >= static_cast<int>(position); });
    EXPECT_NEAR(speculation["acceptance_by_position"][position - 1].get<double>(), static_cast<double>(reached) / rounds, 1e-12);
  }
}

TEST(Generate, CountsAgreeWithTheReferenceOnBothCheckpoints) {
  for (const std::string model : {"tiny-dense", "tiny-moe"}) {
    const json golden = json::parse(read_file(bundled("golden") / (model + ".json")));
    for (const size_t index : {0U, 1U, 24U}) {
      SCOPED_TRACE(model + ", prompt " + std::to_string(index));
      const json& prompt = golden["prompts"][index];
      const json result =
          generate_json({"--model", bundled(model).string(), "--prompt", prompt["text"].get<std::string>(), "--max-tokens", "64",
                         "--prefill-precision", "f32", "--kv-dtype", "f32", "--draft-lm-head", "checkpoint"});
      EXPECT_EQ(result["prompt_tokens"], prompt["prompt_tokens"]);
      EXPECT_EQ(result["output_token_ids"].size(), prompt["new_tokens"].get<size_t>());
      EXPECT_EQ(result["speculation"]["accepted_per_round"], prompt["accepted_per_round"]["3"]);
    }
  }
}

TEST(Generate, StreamedTextIsTheTextOfTheJson) {
  const json result = generate_json({"--prompt", kPrompt});
  const ToolRun streamed = run_tool({"generate", "--prompt", kPrompt, "--draft-lm-head", "checkpoint"});
  EXPECT_EQ(streamed.status, 0);
  EXPECT_EQ(streamed.out, result["text"].get<std::string>() + "\n");
  EXPECT_THAT(streamed.out, Not(HasSubstr("<|im_end|>")));
  for (const char* figure :
       {"tokens/s", "9 rounds, 27 drafted, 19 accepted", "acceptance   1: 100 %", "draft", "verify", "host"}) {
    EXPECT_THAT(streamed.err, HasSubstr(figure));
  }
  EXPECT_THAT(run_tool({"generate", "--prompt", kPrompt, "--quiet"}).err, IsEmpty());
}

TEST(Generate, PrecisionOfTheHeadIsReportedAndChangesNoText) {
  const json plain = generate_json({"--prompt", kPrompt, "--draft-lm-head", "checkpoint"});
  const json& as_stored = plain["speculation"]["draft_precision"];
  EXPECT_EQ(as_stored["requested"], "auto");
  EXPECT_EQ(as_stored["effective"], "bf16");
  EXPECT_EQ(as_stored["stored"], json({{"fc", "bf16"}, {"self_attn", "bf16"}, {"mlp", "bf16"}, {"lm_head", "bf16"}}));
  const json narrow =
      generate_json({"--prompt", kPrompt, "--draft-precision", "FP4", "--draft-fc", "fp8", "--draft-lm-head", "Fp8"});
  const json& converted = narrow["speculation"]["draft_precision"];
  EXPECT_EQ(converted["requested"], "nvfp4");
  EXPECT_EQ(converted["requested_lm_head"], "fp8");
  EXPECT_EQ(converted["effective"], "bf16");
  EXPECT_EQ(converted["stored"], json({{"fc", "fp8-block"}, {"self_attn", "nvfp4"}, {"mlp", "nvfp4"}, {"lm_head", "fp8-block"}}));
  EXPECT_EQ(narrow["output_token_ids"], plain["output_token_ids"]);
  EXPECT_TRUE(generate_json({"--prompt", kPrompt, "--speculative-tokens", "0"})["speculation"]["draft_precision"].is_null());
}

TEST(Generate, WrongPrecisionsOfTheHeadListTheRightOnes) {
  for (const char* option : {"--draft-precision", "--draft-fc", "--draft-experts", "--draft-lm-head"}) {
    for (const char* value : {"int4", "", "bf16,fp8"}) {
      const ToolRun run = run_tool({"generate", "--prompt", kPrompt, std::string(option) + "=" + value});
      EXPECT_EQ(run.status, 2) << option << " " << value;
      EXPECT_THAT(run.err, HasSubstr(option));
    }
    EXPECT_THAT(run_tool({"generate", "--prompt", kPrompt, option, "int4"}).err, HasSubstr("bf16, fp8, nvfp4"));
  }
}

TEST(Generate, EveryWayToGiveAPromptGivesTheSameText) {
  const TemporaryFolder folder;
  write_file(folder.path() / "prompt.txt", kPrompt);
  const json expected = generate_json({"--prompt", kPrompt})["output_token_ids"];
  EXPECT_EQ(generate_json({"--chat", kQuestion})["output_token_ids"], expected);
  EXPECT_EQ(generate_json({"--prompt-file", (folder.path() / "prompt.txt").string()})["output_token_ids"], expected);
  const ToolRun from_stdin = run_tool({"generate", "--prompt-file", "-", "--json"}, {.stdin_text = kPrompt});
  EXPECT_EQ(from_stdin.json()["output_token_ids"], expected);
}

TEST(Generate, ChatKeepsSpecialTokensAsTextAndPromptParsesThem) {
  const json parsed = generate_json({"--prompt", "<|im_end|>", "--max-tokens", "1"});
  EXPECT_EQ(parsed["prompt_tokens"], 1);
  const json empty = generate_json({"--chat", "x", "--max-tokens", "1"});
  const json plain = generate_json({"--chat", "x<|im_end|>", "--max-tokens", "1"});
  EXPECT_GT(plain["prompt_tokens"].get<int>(), empty["prompt_tokens"].get<int>() + 1);
  const json system = generate_json({"--chat", "x", "--system", "Be brief.", "--max-tokens", "1"});
  EXPECT_GT(system["prompt_tokens"].get<int>(), empty["prompt_tokens"].get<int>() + 4);
}

TEST(Generate, TokenIdsAreTakenAsTheyAre) {
  const json result = generate_json({"--token-ids", "1,2,3", "--max-tokens", "5"});
  EXPECT_EQ(result["prompt_tokens"], 3);
  EXPECT_EQ(result["output_token_ids"].size(), 5U);
  EXPECT_EQ(result["finish_reason"], "length");
}

TEST(Generate, IdsDependOnNeitherDraftsNorThreads) {
  const json expected = generate_json({"--prompt", kPrompt, "--speculative-tokens", "0", "--threads", "1"});
  EXPECT_FALSE(expected["speculation"]["enabled"].get<bool>());
  EXPECT_EQ(expected["speculation"]["rounds"], 0);
  for (const Words& options : {Words{"--speculative-tokens", "1"}, Words{"--speculative-tokens", "15"}, Words{"--threads", "3"},
                               Words{"--draft-hidden", "pre", "--draft-chain", "pre"}}) {
    Words words{"--prompt", kPrompt};
    words.insert(words.end(), options.begin(), options.end());
    EXPECT_EQ(generate_json(words)["output_token_ids"], expected["output_token_ids"]);
  }
}

TEST(Generate, CompareFindsIdenticalTextOnBothCheckpoints) {
  for (const std::string model : {"tiny-dense", "tiny-moe"}) {
    const json compare = generate_json({"--model", bundled(model).string(), "--chat", kQuestion, "--compare"})["compare"];
    EXPECT_THAT(keys_of(compare), ElementsAre("identical", "plain_tokens_per_second", "speedup"));
    EXPECT_TRUE(compare["identical"].get<bool>());
    EXPECT_GT(compare["speedup"].get<double>(), 0.0);
  }
  const ToolRun run = run_tool({"generate", "--chat", kQuestion, "--compare"});
  EXPECT_EQ(run.status, 0);
  EXPECT_THAT(run.err, HasSubstr("identical: yes"));
}

TEST(Generate, SelfCheckFindsNoDifference) {
  const json check = generate_json({"--chat", kQuestion, "--self-check"})["self_check"];
  EXPECT_GT(check["rows_checked"].get<int>(), 0);
  EXPECT_EQ(check["rows_different"], 0);
  EXPECT_TRUE(check["first_difference"].is_null());
}

TEST(Generate, WithoutAHeadItDecodesPlainlyAndSaysWhy) {
  const TemporaryFolder folder;
  const std::string model = checkpoint_without_head(folder.path()).string();
  const ToolRun plain = run_tool({"generate", "--model", model, "--chat", kQuestion});
  EXPECT_EQ(plain.status, 0) << plain.err;
  EXPECT_THAT(plain.err, HasSubstr("foretoken: note: plain decoding, speculation is not available: "));
  EXPECT_EQ(plain.out, run_tool({"generate", "--chat", kQuestion}).out);
  for (const Words& options : {Words{"--speculative-tokens", "2"}, Words{"--compare"}}) {
    Words words{"generate", "--model", model, "--chat", kQuestion};
    words.insert(words.end(), options.begin(), options.end());
    const ToolRun refused = run_tool(words);
    EXPECT_EQ(refused.status, 1);
    EXPECT_THAT(refused.err, HasSubstr("speculation is not available"));
    EXPECT_THAT(refused.out, IsEmpty());
  }
  EXPECT_EQ(run_tool({"generate", "--model", model, "--chat", kQuestion, "--speculative-tokens", "0"}).status, 0);
}

TEST(Generate, SyntheticModelsTakeAndGiveTokenIdsOnly) {
  const Words words{"generate", "--model", "synth:qwen3.5-0.8b:layers=4", "--token-ids", "1,2,3", "--max-tokens", "4", "--quiet"};
  Words as_json = words;
  as_json.emplace_back("--json");
  const json result = run_tool(as_json).json();
  EXPECT_TRUE(result["text"].is_null());
  std::string ids;
  for (const json& id : result["output_token_ids"]) ids += (ids.empty() ? "" : ",") + id.dump();
  EXPECT_EQ(run_tool(words).out, ids + "\n");
}

TEST(Generate, TheContextEndsTheText) {
  const json result = generate_json({"--token-ids", repeated_ids(4090), "--max-tokens", "100"});
  EXPECT_LE(result["output_token_ids"].size(), 6U);
  EXPECT_EQ(result["finish_reason"], "length");
}

}  // namespace
}  // namespace foretoken::test
