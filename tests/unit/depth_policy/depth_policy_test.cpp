#include "speculative/depth_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "core/error.h"

namespace foretoken {
namespace {

using Kind = DepthPolicySpec::Kind;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

std::vector<int64_t> depths_of(DepthPolicy& policy, size_t num_sequences, int64_t max_drafts = 15) {
  std::vector<DepthState> states(num_sequences);
  std::vector<ActiveSequence> active;
  for (DepthState& state : states) active.push_back({.state = &state, .max_drafts = max_drafts});
  return policy.depths(active);
}

TEST(ParseDepthPolicy, TakesANumber) {
  EXPECT_EQ(parse_depth_policy("0", 15), (DepthPolicySpec{.kind = Kind::kFixed, .max_drafts = 0}));
  EXPECT_EQ(parse_depth_policy("15", 15), (DepthPolicySpec{.kind = Kind::kFixed, .max_drafts = 15}));
}

TEST(ParseDepthPolicy, TakesAuto) {
  EXPECT_EQ(parse_depth_policy("auto", 7), (DepthPolicySpec{.kind = Kind::kAuto, .max_drafts = 7}));
}

TEST(ParseDepthPolicy, TakesALadder) {
  const DepthPolicySpec spec = parse_depth_policy("4:3,8:4,16:1,32:0", 15);
  EXPECT_EQ(spec.kind, Kind::kLadder);
  EXPECT_EQ(spec.max_drafts, 4);
  EXPECT_THAT(spec.ladder, ElementsAre(LadderStep{4, 3}, LadderStep{8, 4}, LadderStep{16, 1}, LadderStep{32, 0}));
}

TEST(ParseDepthPolicy, WritesWhatItReads) {
  for (const std::string text : {"3", "auto", "4:3,8:3,16:1,32:1", "1:15"}) {
    EXPECT_EQ(to_string(parse_depth_policy(text, 15)), text);
  }
}

TEST(ParseDepthPolicy, SaysWhatIsWrong) {
  const auto message = [](std::string_view text) { return error_of([text] { (void)parse_depth_policy(text, 15); }); };
  for (const std::string_view text : {"", "three", "3 ", " 3", "3x", "Auto", "99999999999999999999", "3,4"}) {
    EXPECT_THAT(message(text), HasSubstr("a number, auto, or a ladder")) << text;
  }
  for (const std::string_view text : {"16", "-1"}) EXPECT_THAT(message(text), HasSubstr("0 .. 15")) << text;
  for (const std::string_view text : {":", "4:", ":3", "4:3,", ",4:3", "4:3,,8:3", "4:3:2", "4:x", "4 :3"}) {
    EXPECT_THAT(message(text), HasSubstr("SEQUENCES:DRAFTS")) << text;
  }
  EXPECT_THAT(message("0:3"), HasSubstr("at least 1"));
  EXPECT_THAT(message("4:16"), HasSubstr("0 .. 15"));
  EXPECT_THAT(message("4:-1"), HasSubstr("0 .. 15"));
  EXPECT_THAT(message("8:3,4:1"), HasSubstr("more than 8"));
  EXPECT_THAT(message("8:3,8:1"), HasSubstr("'8:1'"));
}

TEST(FixedDepth, IsTheSameForAnyNumberOfSequences) {
  const auto policy = make_depth_policy(parse_depth_policy("5", 15));
  EXPECT_EQ(policy->max_drafts(), 5);
  for (const size_t num_sequences : {1, 3, 64}) EXPECT_THAT(depths_of(*policy, num_sequences), Each(5));
}

TEST(FixedDepth, KeepsToTheLimitsOfSequences) {
  const auto policy = make_depth_policy(parse_depth_policy("5", 15));
  EXPECT_THAT(depths_of(*policy, 2, 3), ElementsAre(3, 3));
  EXPECT_THAT(depths_of(*policy, 2, 0), ElementsAre(0, 0));
}

TEST(LadderDepth, GoesByTheNumberOfSequences) {
  const auto policy = make_depth_policy(parse_depth_policy("4:3,8:2,16:1", 15));
  EXPECT_EQ(policy->max_drafts(), 3);
  for (const auto& [num_sequences, expected] :
       std::vector<std::pair<size_t, int64_t>>{{1, 3}, {4, 3}, {5, 2}, {8, 2}, {9, 1}, {16, 1}, {17, 1}, {64, 1}}) {
    const std::vector<int64_t> depths = depths_of(*policy, num_sequences);
    EXPECT_EQ(depths.size(), num_sequences);
    EXPECT_THAT(depths, Each(expected)) << num_sequences;
  }
}

TEST(DepthPolicy, RefusesReportsThatCannotBe) {
  for (const std::string text : {"3", "4:3,8:1", "auto"}) {
    const auto policy = make_depth_policy(parse_depth_policy(text, 15));
    DepthState state;
    const auto observe = [&](int64_t drafted, int64_t accepted, RoundTime time) {
      const std::vector<SequenceOutcome> outcomes{{.state = &state, .num_drafted = drafted, .num_accepted = accepted}};
      policy->observe({.sequences = outcomes, .time = time});
    };
    const RoundTime good{.draft_us = 1.0, .verify_us = 1.0};
    EXPECT_NO_THROW(observe(3, 2, good));
    EXPECT_THAT(error_of([&] { observe(3, 4, good); }), HasSubstr("0 .. 3"));
    EXPECT_THAT(error_of([&] { observe(3, -1, good); }), HasSubstr("accepted drafts"));
    EXPECT_THAT(error_of([&] { observe(3, 1, {.draft_us = -1.0}); }), HasSubstr("not negative"));
    EXPECT_THAT(error_of([&] { observe(3, 1, {.verify_us = std::numeric_limits<double>::quiet_NaN()}); }), HasSubstr("finite"));
    EXPECT_THAT(error_of([&] { policy->observe({}); }), HasSubstr("at least one sequence"));
    EXPECT_THAT(error_of([&] { (void)policy->depths({}); }), HasSubstr("at least one sequence"));
    const std::vector<ActiveSequence> stateless(1);
    EXPECT_THAT(error_of([&] { (void)policy->depths(stateless); }), HasSubstr("depth state"));
    EXPECT_THAT(error_of([&] { policy->learn_cost(0, 1, good); }), HasSubstr("at least 1"));
    EXPECT_THAT(error_of([&] { policy->learn_cost(1, -1, good); }), HasSubstr("at least 0"));
    EXPECT_THAT(error_of([&] { policy->learn_cost(1, 1, {.host_us = -2.0}); }), HasSubstr("not negative"));
  }
}

}  // namespace
}  // namespace foretoken
