// Text as ids come: never half a character, never half a stop string, and nothing after one.
#include "speculative/text_stream.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "models/bundled.h"

namespace foretoken::test {
namespace {

class TextStreamTest : public ::testing::Test {
 protected:
  /// The pieces that come out for the ids of `text`, one id at a time.
  std::vector<std::string> pieces(const std::string& text, const std::vector<std::string>& stop_strings) {
    pieces_.clear();
    TextStream stream(tokenizer_, stop_strings, [this](std::string_view piece) { pieces_.emplace_back(piece); });
    stopped_ = false;
    for (const int32_t id : tokenizer_.encode(text, SpecialTokens::kPlainText)) {
      stopped_ = stream.push(id);
      if (stopped_) break;
    }
    stream.finish();
    text_ = stream.text();
    return pieces_;
  }

  Tokenizer tokenizer_ = Tokenizer::load(bundled_model());
  std::vector<std::string> pieces_;
  std::string text_;
  bool stopped_ = false;
};

TEST_F(TextStreamTest, WithoutStopStringsEverythingComesOut) {
  const std::string text = "A lock is held by one thread. Größe, naïve, 日本語, 🙂.";
  const std::vector<std::string> all = pieces(text, {});
  EXPECT_EQ(text_, text);
  EXPECT_FALSE(stopped_);
  std::string joined;
  for (const std::string& piece : all) joined += piece;
  EXPECT_EQ(joined, text);
  EXPECT_GT(all.size(), 5U) << "the text comes in pieces";
}

TEST_F(TextStreamTest, EndsBeforeTheFirstStopString) {
  pieces("one two three four", {"four", " three"});
  EXPECT_EQ(text_, "one two");
  EXPECT_TRUE(stopped_);
}

TEST_F(TextStreamTest, AStopStringMayLieAcrossTokensAndInsideOne) {
  pieces("the end of a sentence. And more", {"ce. A"});
  EXPECT_EQ(text_, "the end of a senten");
  EXPECT_TRUE(stopped_);
}

TEST_F(TextStreamTest, WhatOnlyBeginsAStopStringComesOutInTheEnd) {
  pieces("one two thr", {"three"});
  EXPECT_EQ(text_, "one two thr");
  EXPECT_FALSE(stopped_);
  pieces("aab aab", {"aaab"});
  EXPECT_EQ(text_, "aab aab");
}

TEST_F(TextStreamTest, NoPieceHoldsTheBeginningOfAStopStringBack) {
  const std::vector<std::string> all = pieces("x <| y", {"<|end|>"});
  for (const std::string& piece : all) EXPECT_FALSE(piece.ends_with("<") || piece.ends_with("<|")) << piece;
  EXPECT_EQ(text_, "x <| y");
}

TEST_F(TextStreamTest, RefusesAnEmptyStopString) { EXPECT_THROW(TextStream(tokenizer_, {""}, {}), Error); }

}  // namespace
}  // namespace foretoken::test
