// Streaming decode: always whole UTF-8 sequences, and in the end what decode() gives.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "core/error.h"
#include "models/tokenizer_text.h"
#include "tests/unit/tokenizer/tokenizer_support.h"

namespace foretoken::test {
namespace {

using tokenizer_detail::is_well_formed;

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

/// Streams `ids`, checking each piece, and returns the whole.
std::string stream(const Ids& ids, bool skip_special_tokens) {
  StreamDecoder decoder(tiny_tokenizer(), skip_special_tokens);
  std::string text;
  for (const int32_t id : ids) {
    const std::string piece = decoder.push(id);
    EXPECT_TRUE(is_well_formed(piece));
    text += piece;
  }
  return text + decoder.flush();
}

int32_t byte_id(uint8_t byte) { return tiny_tokenizer().token_to_id(tokenizer_detail::byte_level_character(byte)).value_or(-1); }

Ids byte_ids(std::string_view bytes) {
  Ids ids;
  for (const char byte : bytes) ids.push_back(byte_id(static_cast<uint8_t>(byte)));
  return ids;
}

TEST(StreamDecoder, EqualsDecodeOnTheReferenceCases) {
  for (const auto& reference : read_json(data_path("golden/tokenizer_cases_tiny.json"))) {
    const auto ids = reference.at("ids").get<Ids>();
    EXPECT_EQ(stream(ids, false), reference.at("decoded").get<std::string>());
    EXPECT_EQ(stream(ids, true), tiny_tokenizer().decode(ids, true));
  }
}

TEST(StreamDecoder, EqualsDecodeOnRandomIds) {
  std::mt19937 random(1);
  std::uniform_int_distribution<int32_t> any_byte(0, 255);
  std::uniform_int_distribution<int32_t> any_id(0, tiny_tokenizer().vocab_size() + 3);
  for (int round = 0; round < 500; ++round) {
    Ids ids(20);
    for (int32_t& id : ids) id = round % 2 == 0 ? byte_id(static_cast<uint8_t>(any_byte(random))) : any_id(random);
    EXPECT_EQ(stream(ids, false), tiny_tokenizer().decode(ids, false));
    EXPECT_EQ(stream(ids, true), tiny_tokenizer().decode(ids, true));
  }
}

TEST(StreamDecoder, HoldsASequenceBackUntilItIsWhole) {
  StreamDecoder decoder(tiny_tokenizer(), false);
  const Ids ids = byte_ids("\xF0\x9F\x98\x80!");
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(decoder.push(ids[i]), "");
  EXPECT_EQ(decoder.push(ids[3]), "\xF0\x9F\x98\x80");
  EXPECT_EQ(decoder.push(ids[4]), "!");
  EXPECT_EQ(decoder.flush(), "");
}

TEST(StreamDecoder, FlushReplacesTheRestOnce) {
  StreamDecoder decoder(tiny_tokenizer(), false);
  for (const int32_t id : byte_ids("\xF0\x9F\x98")) EXPECT_EQ(decoder.push(id), "");
  EXPECT_EQ(decoder.flush(), kReplacement);
  EXPECT_EQ(decoder.flush(), "");
  EXPECT_EQ(decoder.push(byte_id('x')), "x");
}

TEST(StreamDecoder, ReplacesEachMaximalIllFormedPart) {
  const std::string fffd(kReplacement);
  EXPECT_EQ(stream(byte_ids("a\x80z"), false), "a" + fffd + "z");
  EXPECT_EQ(stream(byte_ids("\xE6\x97z"), false), fffd + "z");
  EXPECT_EQ(stream(byte_ids("\xED\xA0\x80"), false), fffd + fffd + fffd);  // a surrogate
  EXPECT_EQ(stream(byte_ids("\xC0\xAF"), false), fffd + fffd);             // overlong
  EXPECT_EQ(stream(byte_ids("\xF4\x90\x80\x80"), false), fffd + fffd + fffd + fffd);
  EXPECT_EQ(stream(byte_ids("\xE6\xE6\x97\xA5"), false), fffd + "\xE6\x97\xA5");
}

TEST(StreamDecoder, ASkippedSpecialTokenDoesNotCutASequence) {
  Ids ids = byte_ids("\xC3\xA9");
  ids.insert(ids.begin() + 1, tiny_tokenizer().token_to_id("<|im_end|>").value_or(-1));
  EXPECT_EQ(stream(ids, true), "\xC3\xA9");
  EXPECT_EQ(stream(ids, false), std::string(kReplacement) + "<|im_end|>" + std::string(kReplacement));
}

TEST(StreamDecoder, UndefinedAndNegativeIds) {
  EXPECT_EQ(stream({tiny_tokenizer().vocab_size()}, false), kReplacement);
  StreamDecoder decoder(tiny_tokenizer(), false);
  EXPECT_THROW((void)decoder.push(-1), Error);
  EXPECT_EQ(decoder.flush(), "");
  EXPECT_THROW((void)tiny_tokenizer().decode(Ids{-1}, false), Error);
}

}  // namespace
}  // namespace foretoken::test
