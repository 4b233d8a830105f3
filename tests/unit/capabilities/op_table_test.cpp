// How an implementation is chosen, and what is said when there is none.
#include "backends/op_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/ops.h"
#include "tests/support/reference_backend.h"

namespace foretoken::test {
namespace {

using ::testing::HasSubstr;

constexpr auto kLaunchNothing = [](CommandList& /*cmd*/, const Argmax& /*op*/) {};

Argmax over(int64_t rows) {
  return {.logits = Tensor::shape_only(DType::kF32, {rows, 8}), .token_ids = Tensor::shape_only(DType::kI32, {rows})};
}

/// "fast" takes one row, "wide" at most four.
OpTable two_implementations() {
  OpTable table;
  const auto at_most = [](int64_t limit) {
    return [limit](const Argmax& op) {
      return op.logits.dim(0) <= limit ? Availability::yes()
                                       : Availability::no("takes " + std::to_string(limit) + " rows at most");
    };
  };
  table.add<Argmax>("fast", kLaunchNothing, at_most(1)).add<Argmax>("wide", kLaunchNothing, at_most(4));
  return table;
}

TEST(OpTable, TakesTheFirstThatAccepts) {
  const OpTable table = two_implementations();
  const Argmax one = over(1);
  const Argmax three = over(3);
  EXPECT_EQ(table.choose("argmax", &one).name, "fast");
  EXPECT_EQ(table.choose("argmax", &three).name, "wide");
  EXPECT_TRUE(table.availability("argmax", &three));
}

TEST(OpTable, SaysWhyNoneAccepts) {
  const OpTable table = two_implementations();
  const Argmax five = over(5);
  const std::string reasons = "no implementation on this device (fast: takes 1 rows at most; wide: takes 4 rows at most)";
  EXPECT_EQ(table.availability("argmax", &five).reason(), reasons);
  try {
    static_cast<void>(table.choose("argmax", &five));
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    EXPECT_EQ(error.what(), "argmax: " + reasons);
  }
  EXPECT_EQ(table.availability("linear", &five).reason(), "no implementation on this device");
}

TEST(Require, NamesWhereOperatorDeviceAndReasons) {
  const ReferenceBackend backend(two_implementations());
  EXPECT_NO_THROW(ops::require(backend, "target", over(4)));
  try {
    ops::require(backend, "target", over(5));
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    EXPECT_THAT(error.what(), HasSubstr("target: argmax on float64 references: no implementation on this device (fast: takes 1"));
  }
}

TEST(Require, AnyLooksForEveryOperatorOfAList) {
  const ReferenceBackend backend(two_implementations());
  EXPECT_NO_THROW(ops::require_any<Argmax>(backend, "target"));
  try {
    ops::require_any<Argmax, RmsNorm>(backend, "target");
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "target: rms_norm on float64 references: no implementation");
  }
}

}  // namespace
}  // namespace foretoken::test
