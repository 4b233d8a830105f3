// Malformed and unsupported tokenizer.json files: each is an error that names the file and the item.
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <ostream>

#include "core/error.h"
#include "tests/unit/tokenizer/tokenizer_support.h"

namespace foretoken::test {
namespace {

using nlohmann::json;

struct BadFile {
  const char* name;
  ErrorCode code;
  const char* item;  // must be in the message
  std::function<void(json&)> spoil;
};

/// For the names of the test cases.
void PrintTo(const BadFile& file, std::ostream* out) { *out << file.name; }

void expect_error(const std::string& text, ErrorCode code, const std::string& item) {
  try {
    (void)Tokenizer::parse(text, "bad.json");
    FAIL() << "no error";
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_EQ(error.code(), code) << message;
    EXPECT_NE(message.find("bad.json"), std::string::npos) << message;
    EXPECT_NE(message.find(item), std::string::npos) << message;
    EXPECT_LT(message.size(), 1000U) << message;
  }
}

class BadTokenizer : public ::testing::TestWithParam<BadFile> {};

TEST_P(BadTokenizer, IsRefused) {
  json file = small_tokenizer_json();
  GetParam().spoil(file);
  expect_error(file.dump(), GetParam().code, GetParam().item);
}

json split_by(const json& pattern, const char* behavior = "Isolated", bool invert = false) {
  return {{"type", "Sequence"},
          {"pretokenizers",
           {{{"type", "Split"}, {"pattern", pattern}, {"behavior", behavior}, {"invert", invert}},
            {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}}}};
}

constexpr auto kFormat = ErrorCode::kFormatError;
constexpr auto kUnsupported = ErrorCode::kUnsupported;

INSTANTIATE_TEST_SUITE_P(
    Format, BadTokenizer,
    ::testing::Values(
        BadFile{"NotAnObject", kFormat, "top level", [](json& f) { f = json::array(); }},
        BadFile{"NoModel", kFormat, "\"model\"", [](json& f) { f.erase("model"); }},
        BadFile{"ModelIsAString", kFormat, "model", [](json& f) { f["model"] = "BPE"; }},
        BadFile{"ModelWithoutType", kFormat, "\"type\"", [](json& f) { f["model"].erase("type"); }},
        BadFile{"VocabIsAnArray", kFormat, "model.vocab", [](json& f) { f["model"]["vocab"] = json::array({"a"}); }},
        BadFile{"IdIsAString", kFormat, "model.vocab[\"abc\"]", [](json& f) { f["model"]["vocab"]["abc"] = "257"; }},
        BadFile{"IdIsAFraction", kFormat, "model.vocab[\"abc\"]", [](json& f) { f["model"]["vocab"]["abc"] = 257.5; }},
        BadFile{"IdIsNegative", kFormat, "model.vocab[\"abc\"]", [](json& f) { f["model"]["vocab"]["abc"] = -1; }},
        BadFile{"IdIsHuge", kFormat, "out of range", [](json& f) { f["model"]["vocab"]["abc"] = 1LL << 40; }},
        BadFile{"IdIsTheLargest", kFormat, "out of range", [](json& f) { f["model"]["vocab"]["abc"] = UINT64_MAX; }},
        BadFile{"IdTwice", kFormat, "duplicate id 256", [](json& f) { f["model"]["vocab"]["abc"] = 256; }},
        BadFile{"EmptyToken", kFormat, "empty", [](json& f) { f["model"]["vocab"][""] = 258; }},
        BadFile{"ByteMissing", kFormat, "no token for byte 97", [](json& f) { f["model"]["vocab"].erase("a"); }},
        BadFile{"EmptyVocab", kFormat, "no token for byte 0", [](json& f) { f["model"]["vocab"] = json::object(); }},
        BadFile{"MergeOfNoToken", kFormat, "model.merges[2]", [](json& f) { f["model"]["merges"].push_back("zz y"); }},
        BadFile{"MergeIntoNoToken", kFormat, "model.merges[2]", [](json& f) { f["model"]["merges"].push_back("x y"); }},
        BadFile{"MergeOfOne", kFormat, "model.merges[2]", [](json& f) { f["model"]["merges"].push_back("ab"); }},
        BadFile{"MergeOfThree", kFormat, "model.merges[2]", [](json& f) { f["model"]["merges"].push_back("a b c"); }},
        BadFile{"MergeArrayOfThree", kFormat, "model.merges[2]",
                [](json& f) {
                  f["model"]["merges"].push_back(json::array({"a", "b", "c"}));
                }},
        BadFile{"MergeIsANumber", kFormat, "model.merges[2]", [](json& f) { f["model"]["merges"].push_back(7); }},
        BadFile{"MergesIsAnObject", kFormat, "model.merges", [](json& f) { f["model"]["merges"] = json::object(); }},
        BadFile{"IgnoreMergesIsANumber", kFormat, "ignore_merges", [](json& f) { f["model"]["ignore_merges"] = 1; }},
        BadFile{"AddedIsAnObject", kFormat, "added_tokens", [](json& f) { f["added_tokens"] = json::object(); }},
        BadFile{"AddedWithoutContent", kFormat, "added_tokens[0]", [](json& f) { f["added_tokens"][0].erase("content"); }},
        BadFile{"AddedIsEmpty", kFormat, "added_tokens[0].content", [](json& f) { f["added_tokens"][0]["content"] = ""; }},
        BadFile{"AddedFlagIsAString", kFormat, "added_tokens[0].special",
                [](json& f) { f["added_tokens"][0]["special"] = "no"; }},
        BadFile{"AddedIdTakesAVocabId", kFormat, "added_tokens[0].id", [](json& f) { f["added_tokens"][0]["id"] = 256; }},
        BadFile{"AddedIdOutOfRange", kFormat, "added_tokens[0].id", [](json& f) { f["added_tokens"][0]["id"] = 100000000; }},
        BadFile{"AddedIdTwice", kFormat, "added_tokens[1].id",
                [](json& f) { f["added_tokens"].push_back(added_token(300, "<b>")); }},
        BadFile{"AddedTwice", kFormat, "added_tokens[1].content",
                [](json& f) { f["added_tokens"].push_back(added_token(301, "<|im_start|>")); }},
        BadFile{"AddedHasTwoIds", kFormat, "two ids", [](json& f) { f["added_tokens"].push_back(added_token(301, "abc")); }},
        BadFile{"BadRegex", kFormat, "pre_tokenizer.pretokenizers[0].pattern",
                [](json& f) { f["pre_tokenizer"] = split_by({{"Regex", "(a"}}); }},
        BadFile{"DeepRegex", kFormat, "pre_tokenizer.pretokenizers[0].pattern",
                [](json& f) { f["pre_tokenizer"] = split_by({{"Regex", std::string(100000, '(')}}); }},
        BadFile{"EmptyRegex", kFormat, "pattern", [](json& f) { f["pre_tokenizer"] = split_by({{"Regex", ""}}); }},
        BadFile{"PatternIsAString", kFormat, "pattern", [](json& f) { f["pre_tokenizer"] = split_by("a"); }}),
    [](const auto& bad) { return bad.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Unsupported, BadTokenizer,
    ::testing::Values(BadFile{"Model", kUnsupported, "\"Unigram\"", [](json& f) { f["model"]["type"] = "Unigram"; }},
                      BadFile{"Normalizer", kUnsupported, "\"Lowercase\"",
                              [](json& f) {
                                f["normalizer"] = {{"type", "Lowercase"}};
                              }},
                      BadFile{"NormalizerInSequence", kUnsupported, "normalizer.normalizers[1]",
                              [](json& f) {
                                f["normalizer"] = {{"type", "Sequence"}, {"normalizers", {{{"type", "NFC"}}, {{"type", "NFD"}}}}};
                              }},
                      BadFile{"PreTokenizer", kUnsupported, "\"Metaspace\"",
                              [](json& f) {
                                f["pre_tokenizer"] = {{"type", "Metaspace"}};
                              }},
                      BadFile{"NoPreTokenizer", kUnsupported, "pre_tokenizer", [](json& f) { f["pre_tokenizer"] = nullptr; }},
                      BadFile{"NoByteLevel", kUnsupported, "ByteLevel",
                              [](json& f) {
                                f["pre_tokenizer"] = split_by({{"Regex", "a"}})["pretokenizers"][0];
                              }},
                      BadFile{"PrefixSpace", kUnsupported, "add_prefix_space",
                              [](json& f) { f["pre_tokenizer"]["add_prefix_space"] = true; }},
                      BadFile{"SplitBehavior", kUnsupported, "\"Removed\"",
                              [](json& f) {
                                f["pre_tokenizer"] = split_by({{"Regex", "a"}}, "Removed");
                              }},
                      BadFile{"SplitInverted", kUnsupported, "invert",
                              [](json& f) {
                                f["pre_tokenizer"] = split_by({{"Regex", "a"}}, "Isolated", true);
                              }},
                      BadFile{"NestedClass", kUnsupported, "nested",
                              [](json& f) {
                                f["pre_tokenizer"] = split_by({{"Regex", "[a[b]]"}});
                              }},
                      BadFile{"PostProcessor", kUnsupported, "\"TemplateProcessing\"",
                              [](json& f) {
                                f["post_processor"] = {{"type", "TemplateProcessing"}};
                              }},
                      BadFile{"Decoder", kUnsupported, "\"WordPiece\"",
                              [](json& f) {
                                f["decoder"] = {{"type", "WordPiece"}};
                              }},
                      BadFile{"Prefix", kUnsupported, "continuing_subword_prefix",
                              [](json& f) { f["model"]["continuing_subword_prefix"] = "##"; }},
                      BadFile{"Dropout", kUnsupported, "dropout", [](json& f) { f["model"]["dropout"] = 0.1; }}),
    [](const auto& bad) { return bad.param.name; });

TEST(HostileTokenizer, EveryTruncationIsAnError) {
  const std::string text = small_tokenizer_json().dump();
  for (size_t length = 0; length < text.size(); length += 7) {
    expect_error(text.substr(0, length), ErrorCode::kFormatError, "not JSON");
  }
}

TEST(HostileTokenizer, DeepNestingIsRefused) {
  expect_error(std::string(1000000, '['), ErrorCode::kFormatError, "nested too deeply");
  std::string objects;
  for (int i = 0; i < 100000; ++i) objects += R"({"a":)";
  expect_error(objects, ErrorCode::kFormatError, "nested too deeply");
}

TEST(HostileTokenizer, BracketsInStringsDoNotNest) {
  json file = small_tokenizer_json();
  file["added_tokens"].push_back(added_token(301, std::string(100, '[') + "\"\\"));
  EXPECT_EQ(Tokenizer::parse(file.dump(), "good.json").vocab_size(), 302);
}

TEST(HostileTokenizer, IllFormedUtf8InTheFileIsAnError) {
  expect_error("{\"model\": \"\xFF\"}", ErrorCode::kFormatError, "not JSON");
  expect_error(R"({"model": "\ud800"})", ErrorCode::kFormatError, "not JSON");
}

TEST(HostileTokenizer, ChangedBytesNeverCrash) {
  const std::string good = small_tokenizer_json().dump();
  for (size_t i = 0; i < good.size(); i += 3) {
    std::string text = good;
    text[i] = static_cast<char>("\"{[0-,"[i % 6]);
    try {
      (void)Tokenizer::parse(text, "changed.json").encode("abc abc", SpecialTokens::kParse);
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("changed.json"), std::string::npos) << error.what();
    }
  }
}

TEST(HostileTokenizer, MissingFiles) {
  for (const char* path : {"no-such-directory", "golden"}) {
    try {
      (void)Tokenizer::load(data_path(path));
      FAIL() << "no error for " << path;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      EXPECT_NE(std::string(error.what()).find(path), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace foretoken::test
