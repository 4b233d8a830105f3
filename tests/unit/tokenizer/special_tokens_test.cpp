// Added tokens inside a text: parsed or left as text, stripping flags, longest match, normalized tokens.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "tests/unit/tokenizer/tokenizer_support.h"

namespace foretoken::test {
namespace {

using nlohmann::json;

Tokenizer small_with(const std::vector<json>& added, const json& normalizer = nullptr) {
  json file = small_tokenizer_json();
  for (const json& token : added) file["added_tokens"].push_back(token);
  file["normalizer"] = normalizer;
  return Tokenizer::parse(file.dump(), "small");
}

json with_flag(json token, const char* flag) {
  token[flag] = true;
  return token;
}

TEST(SpecialTokens, ParsedOrPlain) {
  const Tokenizer& tokenizer = tiny_tokenizer();
  const std::string text = "a<|endoftext|>b<think>";
  const Ids parsed = tokenizer.encode(text, SpecialTokens::kParse);
  EXPECT_EQ(parsed, (Ids{64, 4089, 65, 4092}));
  const Ids plain = tokenizer.encode(text, SpecialTokens::kPlainText);
  for (const int32_t id : plain) EXPECT_LT(id, 4089);
  EXPECT_EQ(tokenizer.decode(plain, true), text);
  EXPECT_EQ(tokenizer.decode(parsed, false), text);
  EXPECT_EQ(tokenizer.decode(parsed, true), "ab<think>");
}

TEST(SpecialTokens, Lookups) {
  const Tokenizer& tokenizer = tiny_tokenizer();
  EXPECT_EQ(tokenizer.vocab_size(), 4096);
  EXPECT_EQ(tokenizer.token_to_id("<|im_end|>"), 4091);
  EXPECT_EQ(tokenizer.token_to_id("\xC4\xA0\xC4\xA0"), 256);
  EXPECT_EQ(tokenizer.token_to_id("no such token"), std::nullopt);
  EXPECT_EQ(tokenizer.token_bytes(256), "  ");
  EXPECT_EQ(tokenizer.token_bytes(4091), "<|im_end|>");
  EXPECT_TRUE(tokenizer.is_special(4091));
  EXPECT_FALSE(tokenizer.is_special(4092));
  EXPECT_FALSE(tokenizer.is_special(0));
  for (const int32_t id : {-1, 4096, INT32_MAX, INT32_MIN}) {
    EXPECT_FALSE(tokenizer.contains(id));
    EXPECT_FALSE(tokenizer.is_special(id));
    EXPECT_THROW((void)tokenizer.token_bytes(id), Error);
  }
}

TEST(SpecialTokens, IdsMayLeaveGaps) {
  const Tokenizer tokenizer = small_with({});
  EXPECT_EQ(tokenizer.vocab_size(), 301);
  EXPECT_FALSE(tokenizer.contains(299));
  EXPECT_EQ(tokenizer.decode(Ids{256, 299, 'c'}, false),
            "ab\xEF\xBF\xBD"
            "c");
}

TEST(SpecialTokens, LongestAtTheLeftmostPlaceWins) {
  const Tokenizer tokenizer = small_with({added_token(301, "<x"), added_token(302, "<x>"), added_token(303, "x><y>")});
  EXPECT_EQ(tokenizer.encode("<x><y>", SpecialTokens::kParse), (Ids{302, '<', 'y', '>'}));
  EXPECT_EQ(tokenizer.encode("<x<x>", SpecialTokens::kParse), (Ids{301, 302}));
}

TEST(SpecialTokens, Stripping) {
  const Tokenizer tokenizer =
      small_with({with_flag(added_token(301, "<l>"), "lstrip"), with_flag(added_token(302, "<r>"), "rstrip")});
  EXPECT_EQ(tokenizer.encode("c \t\xE3\x80\x80<l> c", SpecialTokens::kParse), (Ids{'c', 301, ' ', 'c'}));
  EXPECT_EQ(tokenizer.encode("c <r> \n\xC2\xA0"
                             "c",
                             SpecialTokens::kParse),
            (Ids{'c', ' ', 302, 'c'}));
  EXPECT_EQ(tokenizer.encode("<r>  <l>", SpecialTokens::kParse), (Ids{302, 301}));
  EXPECT_EQ(tokenizer.encode("  <l>", SpecialTokens::kParse), (Ids{301}));
  EXPECT_EQ(tokenizer.encode("<r>  ", SpecialTokens::kParse), (Ids{302}));
}

TEST(SpecialTokens, NormalizedTokensAreFoundAfterNormalization) {
  const std::string composed = "<\xC3\xA9>";
  const std::string decomposed = "<e\xCC\x81>";
  const json nfc = {{"type", "NFC"}};
  const Tokenizer after = small_with({with_flag(added_token(301, decomposed), "normalized")}, nfc);
  EXPECT_EQ(after.encode(decomposed + composed, SpecialTokens::kParse), (Ids{301, 301}));
  const Tokenizer before = small_with({added_token(301, decomposed)}, nfc);
  EXPECT_EQ(before.encode(decomposed + composed, SpecialTokens::kParse), (Ids{301, '<', 0xC3, 0xA9, '>'}));
}

TEST(SpecialTokens, WholeWordTokensAreRefused) {
  try {
    (void)small_with({with_flag(added_token(301, "word"), "single_word")});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    EXPECT_NE(std::string(error.what()).find("added_tokens[1].single_word"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace foretoken::test
