#include "core/error.h"

#include <gtest/gtest.h>

#include "core/fault.h"

namespace foretoken {
namespace {

TEST(Error, SaysWhereWhatExpectedAndGot) {
  const Error full(ErrorCode::kFormatError, {.what = "bad extent", .where = "a.safetensors", .expected = "4", .got = "5"});
  EXPECT_STREQ(full.what(), "a.safetensors: bad extent (expected 4, got 5)");
  EXPECT_EQ(full.code(), ErrorCode::kFormatError);
  EXPECT_STREQ(Error(ErrorCode::kInvalidArgument, ErrorDetail{.what = "bad", .got = "5"}).what(), "bad (got 5)");
  EXPECT_STREQ(Error(ErrorCode::kInvalidArgument, ErrorDetail{.what = "bad", .expected = "4"}).what(), "bad (expected 4)");
  EXPECT_STREQ(Error(ErrorCode::kInvalidArgument, ErrorDetail{.what = "bad", .where = "here"}).what(), "here: bad");
  EXPECT_STREQ(Error(ErrorCode::kInternalError, "plain").what(), "plain");
}

TEST(Error, KnowsItsSourceLine) {
  const int line = __LINE__ + 1;
  const Error error(ErrorCode::kInternalError, "here");
  EXPECT_EQ(error.source().line(), static_cast<unsigned>(line));
  EXPECT_EQ(error.with_context("outer").source().line(), static_cast<unsigned>(line));
}

TEST(Error, TakesContextOnItsWay) {
  try {
    with_error_context("loading", [] { throw Error(ErrorCode::kOutOfMemory, "no room"); });
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "loading: no room");
    EXPECT_EQ(error.code(), ErrorCode::kOutOfMemory);
  }
  EXPECT_EQ(with_error_context("adding", [] { return 3; }), 3);
}

TEST(Error, NamesItsCodes) {
  for (const ErrorCode code :
       {ErrorCode::kInvalidArgument, ErrorCode::kUnsupported, ErrorCode::kOutOfMemory, ErrorCode::kDeviceError,
        ErrorCode::kFormatError, ErrorCode::kInvalidState, ErrorCode::kInternalError}) {
    EXPECT_NE(to_string(code), "unknown error");
  }
}

#ifdef FORETOKEN_FAULTS
TEST(Fault, IsOneAtATime) {
  EXPECT_TRUE(fault::active(Fault::kNone));
  fault::inject(Fault::kVerifyUlp);
  EXPECT_TRUE(fault::active(Fault::kVerifyUlp));
  EXPECT_FALSE(fault::active(Fault::kStaleBlockTable));
  EXPECT_FALSE(fault::active(Fault::kNone));
  fault::inject(Fault::kNone);
  EXPECT_FALSE(fault::active(Fault::kVerifyUlp));
}
#else
TEST(Fault, IsNeverActiveWhenCompiledOut) { EXPECT_FALSE(fault::active(Fault::kVerifyUlp)); }
#endif

}  // namespace
}  // namespace foretoken
