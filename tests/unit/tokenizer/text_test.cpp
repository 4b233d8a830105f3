// Text handling: ill-formed input, NFC, split patterns, merge order, and long inputs in bounded time.
#include <gtest/gtest.h>
#include <utf8proc.h>

#include <chrono>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "core/error.h"
#include "models/tokenizer_split.h"
#include "models/tokenizer_text.h"
#include "tests/unit/tokenizer/tokenizer_support.h"

namespace foretoken::test {
namespace {

using nlohmann::json;
using namespace tokenizer_detail;

std::vector<std::string> pieces(const std::string& pattern, std::string_view text) {
  std::vector<std::string> found;
  Splitter(SplitRule{pattern, true, "test"}).split(text, [&](std::string_view piece) { found.emplace_back(piece); });
  return found;
}

/// NFC as the library computes it from one string.
std::string library_nfc(const std::string& text) {
  constexpr int kFlags = UTF8PROC_STABLE | UTF8PROC_COMPOSE;
  const auto options = static_cast<utf8proc_option_t>(kFlags);  // NOLINT(*EnumCastOutOfRange): flags made to be or-ed
  utf8proc_uint8_t* normalized = nullptr;
  const auto length = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                   static_cast<utf8proc_ssize_t>(text.size()), &normalized, options);
  const std::string result(reinterpret_cast<const char*>(normalized), static_cast<size_t>(length));
  std::free(normalized);
  return result;
}

TEST(TokenizerText, IllFormedInputCountsAsReplacementCharacters) {
  const Tokenizer& tokenizer = tiny_tokenizer();
  for (const auto& [bytes, text] : std::vector<std::pair<std::string, std::string>>{
           {"a\xFFz", "a\uFFFDz"}, {"\xE6\x97", "\uFFFD"}, {"x\xC3", "x\uFFFD"}, {"\xED\xA0\x80", "\uFFFD\uFFFD\uFFFD"}}) {
    for (const SpecialTokens mode : {SpecialTokens::kParse, SpecialTokens::kPlainText}) {
      EXPECT_EQ(tokenizer.encode(bytes, mode), tokenizer.encode(text, mode));
    }
  }
}

TEST(TokenizerText, NfcEqualsTheLibraryOnRandomText) {
  // Letters, marks of many classes, Hangul parts, singletons and composition exclusions.
  constexpr char32_t kAlphabet[] = {U'a',   U'e',    U'A',    0x300,  0x301,  0x302,  0x308,  0x315,  0x316,  0x323,  0x327,
                                    0x345,  0xC5,    0x1EA5,  0x212B, 0x2126, 0x1100, 0x1161, 0x11A8, 0xAC00, 0x0958, 0x093C,
                                    0xFB1D, 0x1D15E, 0x1D165, 0x200D, 0x0CC6, 0x0CC2, 0x0CD5, 0x0F71, 0x0F72, 0x0F80, 0x1F82};
  std::mt19937 random(7);
  std::uniform_int_distribution<size_t> any(0, std::size(kAlphabet) - 1);
  for (int round = 0; round < 5000; ++round) {
    std::string text;
    for (int i = 0; i < 12; ++i) append_utf8(text, kAlphabet[any(random)]);
    ASSERT_EQ(normalize_nfc(text).value_or(text), library_nfc(text));
  }
}

TEST(TokenizerText, EveryCodePointSurvivesARoundTrip) {
  const Tokenizer& tokenizer = tiny_tokenizer();
  for (char32_t block = 0; block < 0x110000; block += 0x100) {
    if (block >= 0xD800 && block < 0xE000) continue;
    std::string text;
    for (char32_t c = block; c < block + 0x100; ++c) append_utf8(text, c);
    ASSERT_TRUE(is_well_formed(text));
    const Ids ids = tokenizer.encode(text, SpecialTokens::kParse);
    ASSERT_EQ(tokenizer.decode(ids, false), normalize_nfc(text).value_or(text)) << "block " << std::hex << uint32_t{block};
  }
}

TEST(TokenizerText, ByteLevelAlphabet) {
  EXPECT_EQ(byte_level_character('A'), "A");
  EXPECT_EQ(byte_level_character(' '), "\u0120");
  EXPECT_EQ(byte_level_character('\n'), "\u010A");
  EXPECT_EQ(byte_level_character(0xAD), "\u0143");
  for (int byte = 0; byte < 256; ++byte) {
    EXPECT_EQ(byte_level_bytes(byte_level_character(static_cast<uint8_t>(byte))), std::string(1, static_cast<char>(byte)));
  }
  EXPECT_EQ(byte_level_bytes("a b"), std::nullopt);
}

TEST(TokenizerText, SplitKeepsEverythingInOrder) {
  EXPECT_EQ(pieces("[a-z]+", "12ab3cd"), (std::vector<std::string>{"12", "ab", "3", "cd"}));
  EXPECT_EQ(pieces("x*", "ab"), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(pieces("\\s+", ""), (std::vector<std::string>{}));
}

TEST(TokenizerText, WhiteSpaceIsTheUnicodeProperty) {
  // U+180E left White_Space with Unicode 6.3; U+0085 is in it, U+200B is not.
  EXPECT_EQ(pieces("\\s", "a\u180Eb"), (std::vector<std::string>{"a\u180Eb"}));
  EXPECT_EQ(pieces("[\\s]", "a\u0085b"), (std::vector<std::string>{"a", "\u0085", "b"}));
  EXPECT_EQ(pieces("[^\\s]+", "a\u3000b"), (std::vector<std::string>{"a", "\u3000", "b"}));
  EXPECT_EQ(pieces("[\\S]+", "a\u200Bb\u2003"), (std::vector<std::string>{"a\u200Bb", "\u2003"}));
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    std::string text;
    append_utf8(text, c);
    ASSERT_EQ(leading_white_space(text), is_white_space(c) ? text.size() : 0);
    ASSERT_EQ(trailing_white_space("x" + text), is_white_space(c) ? text.size() : 0);
  }
}

TEST(TokenizerText, ClassSyntaxThatEnginesReadDifferentlyIsRefused) {
  EXPECT_THROW((void)translate_pattern("[a[b]]"), Error);
  EXPECT_THROW((void)translate_pattern("[\\p{L}&&[^a]]"), Error);
  EXPECT_EQ(translate_pattern("[[:alpha:]]|\\[&&[]a]"), "[[:alpha:]]|\\[&&[]a]");
}

TEST(TokenizerText, ARunawayPatternIsAnErrorNotAHang) {
  EXPECT_THROW((void)pieces("(?:a|aa)+c", std::string(4000, 'a') + "bc"), Error);
}

TEST(TokenizerText, MergesGoByRankAndThenFromTheLeft) {
  json file = small_tokenizer_json();
  file["model"]["vocab"]["aa"] = 258;
  file["model"]["vocab"]["bc"] = 259;
  file["model"]["merges"] = json::array({"b c", "a b", "ab c", "a a"});
  const Tokenizer tokenizer = Tokenizer::parse(file.dump(), "small");
  EXPECT_EQ(tokenizer.encode("abc", SpecialTokens::kParse), (Ids{'a', 259}));
  EXPECT_EQ(tokenizer.encode("aaa", SpecialTokens::kParse), (Ids{258, 'a'}));
  file["model"]["ignore_merges"] = true;
  EXPECT_EQ(Tokenizer::parse(file.dump(), "small").encode("abc", SpecialTokens::kParse), (Ids{257}));
}

TEST(TokenizerText, SplitRulesComeFromTheFile) {
  json file = small_tokenizer_json();
  const auto split = [](const json& pattern) {
    return json{{"type", "Split"}, {"pattern", pattern}, {"behavior", "Isolated"}, {"invert", false}};
  };
  file["pre_tokenizer"] = {{"type", "Sequence"},
                           {"pretokenizers",
                            {split({{"Regex", "b"}}),
                             split({{"String", "."}}),
                             {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}}}};
  EXPECT_EQ(Tokenizer::parse(file.dump(), "small").encode("ab.", SpecialTokens::kParse), (Ids{'a', 'b', '.'}));
}

TEST(TokenizerText, ThreadsShareOneTokenizer) {
  const std::string text = "Threads share the word cache, and all of them must see whole words.";
  const Ids expected = tiny_tokenizer().encode(text, SpecialTokens::kParse);
  const Tokenizer tokenizer = Tokenizer::load(data_path("tiny-dense"));
  std::vector<Ids> results(4);
  {
    std::vector<std::jthread> threads;
    threads.reserve(results.size());
    for (Ids& result : results) {
      threads.emplace_back([&] {
        for (int round = 0; round < 50; ++round) result = tokenizer.encode(text, SpecialTokens::kParse);
      });
    }
  }
  for (const Ids& result : results) EXPECT_EQ(result, expected);
}

/// No input of a megabyte may take long; the bound is far above the fraction of a second that each takes.
TEST(TokenizerText, LongInputsTakeLinearTime) {
  constexpr size_t kBytes = size_t{1} << 20U;
  std::string marks = "a";
  while (marks.size() < kBytes) marks += "\u0315\u0327\u0301\u0323";
  const auto repeated = [](std::string_view part) {
    std::string text;
    while (text.size() < kBytes) text += part;
    return text;
  };
  const std::vector<std::string> texts{repeated("a"),    repeated("abcdefghijklmnopqrstuvwxyz"),
                                       repeated(" "),    repeated("\n"),
                                       repeated(" \n"),  repeated("1"),
                                       repeated("!"),    marks,
                                       repeated("  x"),  repeated("\u65E5"),
                                       repeated("<|im_")};
  for (const std::string& text : texts) {
    const auto start = std::chrono::steady_clock::now();
    const Ids ids = tiny_tokenizer().encode(text, SpecialTokens::kParse);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    EXPECT_LT(elapsed.count(), 20.0) << text.substr(0, 8);
    RecordProperty("seconds_" + std::to_string(&text - texts.data()), std::to_string(elapsed.count()));
    EXPECT_EQ(tiny_tokenizer().decode(ids, false), normalize_nfc(text).value_or(text));
  }
}

}  // namespace
}  // namespace foretoken::test
