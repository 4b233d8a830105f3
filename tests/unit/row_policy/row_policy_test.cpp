#include "speculative/row_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"

namespace foretoken {
namespace {

int64_t dropped(RowPolicy policy, int64_t num_drafted, int64_t num_accepted) {
  return rows_after_verify(policy, num_drafted, num_accepted).num_dropped;
}

TEST(RowPolicy, TrimDropsOneRowForEachRejectedDraft) {
  EXPECT_EQ(dropped(RowPolicy::kTrim, 1, 0), 1);
  EXPECT_EQ(dropped(RowPolicy::kTrim, 1, 1), 0);
  EXPECT_EQ(dropped(RowPolicy::kTrim, 2, 0), 2);
  EXPECT_EQ(dropped(RowPolicy::kTrim, 2, 1), 1);
  EXPECT_EQ(dropped(RowPolicy::kTrim, 3, 3), 0);
}

TEST(RowPolicy, RefeedDropsTheRowsOfAcceptedDraftsPastTheFirstToo) {
  EXPECT_EQ(dropped(RowPolicy::kRefeedAccepted, 2, 1), 1);
  EXPECT_EQ(dropped(RowPolicy::kRefeedAccepted, 2, 2), 1);
  EXPECT_EQ(dropped(RowPolicy::kRefeedAccepted, 3, 2), 2);
  EXPECT_EQ(dropped(RowPolicy::kRefeedAccepted, 3, 3), 2);
  EXPECT_EQ(dropped(RowPolicy::kRefeedAccepted, 1, 1), 0);
  for (int64_t drafted = 1; drafted <= 15; ++drafted) {
    EXPECT_EQ(dropped(RowPolicy::kRefeedAccepted, drafted, 0), dropped(RowPolicy::kTrim, drafted, 0));
    for (int64_t accepted = 0; accepted <= drafted; ++accepted) {
      EXPECT_LE(dropped(RowPolicy::kRefeedAccepted, drafted, accepted), drafted);
    }
  }
}

TEST(RowPolicy, ExactDropsTheRowsOfAllChainedPasses) {
  for (int64_t drafted = 1; drafted <= 15; ++drafted) {
    for (int64_t accepted = 0; accepted <= drafted; ++accepted) {
      EXPECT_EQ(dropped(RowPolicy::kExact, drafted, accepted), drafted - 1);
    }
  }
}

/// The keys that stay and those that are taken in next never meet, and leave out what the reference leaves out: one key a verify.
TEST(RowPolicy, EveryKeyOfTheTextIsKeptOrTakenInOrLeftOut) {
  for (int64_t drafted = 1; drafted <= 15; ++drafted) {
    for (int64_t accepted = 0; accepted <= drafted; ++accepted) {
      const auto keys_lost = [&](RowPolicy policy) {
        const RowsAfterVerify rows = rows_after_verify(policy, drafted, accepted);
        const int64_t kept = drafted - rows.num_dropped;            // of the keys p-1, p, ...
        const int64_t taken_in = accepted + 1 - rows.num_left_out;  // of the keys up to p+a
        return accepted + 2 - kept - taken_in;
      };
      EXPECT_EQ(keys_lost(RowPolicy::kExact), 0);
      EXPECT_EQ(keys_lost(RowPolicy::kTrim), 1);
      EXPECT_EQ(keys_lost(RowPolicy::kRefeedAccepted), accepted == 0 ? 1 : 0);
    }
  }
}

TEST(RowPolicy, NamesRoundTripAndOthersAreRefusedWithTheList) {
  for (const RowPolicy policy : {RowPolicy::kExact, RowPolicy::kRefeedAccepted, RowPolicy::kTrim}) {
    EXPECT_EQ(parse_row_policy(row_policy_name(policy)), policy);
  }
  try {
    static_cast<void>(parse_row_policy("loose"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_THAT(error.what(), ::testing::AllOf(::testing::HasSubstr("'loose'"), ::testing::HasSubstr("refeed-accepted")));
  }
}

}  // namespace
}  // namespace foretoken
