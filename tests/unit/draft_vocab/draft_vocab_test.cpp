#include "models/draft_vocab.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "core/error.h"

namespace foretoken {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::string error_of(ErrorCode code, const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

/// A folder with files of its own.
class DraftVocabFiles : public testing::Test {
 protected:
  DraftVocabFiles() {
    const testing::TestInfo& test = *testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::path(testing::TempDir()) / ("draft-vocab-" + std::string(test.name()));
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~DraftVocabFiles() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }

  std::filesystem::path folder_;
};

TEST(MostFrequentTokens, KeepsThoseThatCountMost) {
  const std::vector<int64_t> counts{0, 9, 3, 0, 9, 1, 0, 3};
  EXPECT_THAT(most_frequent_tokens(counts, 1, {}), ElementsAre(1));
  EXPECT_THAT(most_frequent_tokens(counts, 3, {}), ElementsAre(1, 2, 4)) << "2 and 7 are equal: the lower one";
  EXPECT_THAT(most_frequent_tokens(counts, 6, {}), ElementsAre(0, 1, 2, 4, 5, 7)) << "the lowest id fills up";
  EXPECT_THAT(most_frequent_tokens(counts, 100, {}), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
}

TEST(MostFrequentTokens, AlwaysTokensComeOnTop) {
  const std::vector<int64_t> counts{0, 9, 3, 0, 9, 1, 0, 3};
  EXPECT_THAT(most_frequent_tokens(counts, 2, std::vector<int32_t>{6, 0, 6, 4}), ElementsAre(0, 1, 4, 6));
}

TEST(MostFrequentTokens, RefusesWhatCannotBe) {
  const std::vector<int64_t> counts{1, 2};
  EXPECT_THAT(error_of(ErrorCode::kInvalidArgument, [&] { (void)most_frequent_tokens(counts, 0, {}); }), HasSubstr("at least 1"));
  for (const int32_t id : {2, -1}) {
    EXPECT_THAT(error_of(ErrorCode::kInvalidArgument, [&] { (void)most_frequent_tokens(counts, 1, std::vector{id}); }),
                HasSubstr("0 .. 1"));
  }
}

TEST(DraftVocabText, ReadsWhatItWrites) {
  const DraftVocab vocab{.vocab_size = 100, .tokenizer = "abc", .token_ids = {0, 5, 99}};
  const DraftVocab read = parse_draft_vocab(to_json(vocab), "a file");
  EXPECT_EQ(read.vocab_size, vocab.vocab_size);
  EXPECT_EQ(read.tokenizer, vocab.tokenizer);
  EXPECT_EQ(read.token_ids, vocab.token_ids);
}

TEST(DraftVocabText, SaysWhatIsWrong) {
  const auto message = [](const std::string& text) {
    return error_of(ErrorCode::kFormatError, [&] { (void)parse_draft_vocab(text, "a file"); });
  };
  const auto with = [](const std::string& vocab_size, const std::string& ids) {
    return R"({"format": "foretoken-draft-vocab", "version": 1, "vocab_size": )" + vocab_size +
           R"(, "tokenizer": "", "token_ids": )" + ids + "}";
  };
  EXPECT_THAT(message(""), HasSubstr("a file"));
  EXPECT_THAT(message("[1, 2]"), AllOf(HasSubstr("a JSON object"), HasSubstr("array")));
  EXPECT_THAT(message("{}"), HasSubstr("no \"format\""));
  EXPECT_THAT(message(R"({"format": "other"})"), HasSubstr("other"));
  EXPECT_THAT(message(R"({"format": 3})"), HasSubstr("number"));
  EXPECT_THAT(message(R"({"format": "foretoken-draft-vocab", "version": 2})"), AllOf(HasSubstr("version"), HasSubstr("2")));
  EXPECT_THAT(message(with("\"9\"", "[1]")), HasSubstr("vocab_size"));
  EXPECT_THAT(message(with("0", "[1]")), HasSubstr("vocab_size"));
  EXPECT_THAT(message(with("99999999999", "[1]")), HasSubstr("vocab_size"));
  EXPECT_THAT(message(with("9", "7")), HasSubstr("token_ids"));
  EXPECT_THAT(message(with("9", "[1, 2.5]")), HasSubstr("token_ids"));
  EXPECT_THAT(message(with("9", "[]")), HasSubstr("at least one id"));
  EXPECT_THAT(message(with("9", "[1, 9]")), AllOf(HasSubstr("token_ids[1]"), HasSubstr("0 .. 8")));
  EXPECT_THAT(message(with("9", "[-1]")), HasSubstr("token_ids[0]"));
  EXPECT_THAT(message(with("9", "[1, 99999999999]")), HasSubstr("token_ids[1]"));
  EXPECT_THAT(message(with("9", "[1, 4, 4]")), AllOf(HasSubstr("token_ids[2] does not rise"), HasSubstr("more than 4")));
  EXPECT_THAT(message(with("9", "[4, 1]")), HasSubstr("does not rise"));
}

TEST_F(DraftVocabFiles, ANumberIsTheFirstIds) {
  EXPECT_THAT(read_draft_vocab("3", 10, folder_), ElementsAre(0, 1, 2));
  EXPECT_EQ(read_draft_vocab("10", 10, {}).size(), 10U);
  for (const std::string option : {"0", "11", "99999999999999999999"}) {
    EXPECT_THAT(error_of(ErrorCode::kInvalidArgument, [&] { (void)read_draft_vocab(option, 10, folder_); }),
                AllOf(HasSubstr("1 .. 10"), HasSubstr(option)));
  }
}

TEST_F(DraftVocabFiles, AFileMustBeForThisModel) {
  write("tokenizer.json", "a tokenizer");
  const std::string print = tokenizer_fingerprint(folder_);
  EXPECT_EQ(print.size(), 16U);
  const std::string file = write("vocab.json", to_json({.vocab_size = 10, .tokenizer = print, .token_ids = {2, 7}}));
  EXPECT_THAT(read_draft_vocab(file, 10, folder_), ElementsAre(2, 7));
  EXPECT_THAT(error_of(ErrorCode::kInvalidArgument, [&] { (void)read_draft_vocab(file, 11, folder_); }),
              AllOf(HasSubstr("for 11 tokens"), HasSubstr("for 10")));
  write("tokenizer.json", "another tokenizer");
  EXPECT_THAT(error_of(ErrorCode::kInvalidArgument, [&] { (void)read_draft_vocab(file, 10, folder_); }),
              AllOf(HasSubstr("another tokenizer"), HasSubstr(print)));
  EXPECT_THAT(read_draft_vocab(file, 10, {}), ElementsAre(2, 7)) << "a model without a tokenizer";
  EXPECT_THAT(error_of(ErrorCode::kInvalidArgument, [&] { (void)read_draft_vocab((folder_ / "none").string(), 10, folder_); }),
              HasSubstr("none"));
}

TEST_F(DraftVocabFiles, AFolderWithoutATokenizerHasNoFingerprint) {
  EXPECT_EQ(tokenizer_fingerprint(folder_), "");
  EXPECT_EQ(tokenizer_fingerprint({}), "");
}

}  // namespace
}  // namespace foretoken
