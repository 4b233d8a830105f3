#include "speculative/row_policy.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "core/error.h"

namespace foretoken {
namespace {

constexpr std::array<std::pair<std::string_view, RowPolicy>, 3> kNames{
    {{"exact", RowPolicy::kExact}, {"refeed-accepted", RowPolicy::kRefeedAccepted}, {"trim", RowPolicy::kTrim}}};

}  // namespace

RowsAfterVerify rows_after_verify(RowPolicy policy, int64_t num_drafted, int64_t num_accepted) {
  const int64_t num_rejected = num_drafted - num_accepted;
  switch (policy) {
    case RowPolicy::kExact: break;
    case RowPolicy::kRefeedAccepted:
      return {.num_dropped = num_rejected + std::max<int64_t>(num_accepted - 1, 0), .num_left_out = 0};
    case RowPolicy::kTrim: return {.num_dropped = num_rejected, .num_left_out = num_accepted};
  }
  return {.num_dropped = num_drafted - 1, .num_left_out = 0};
}

RowPolicy parse_row_policy(std::string_view name) {
  const auto* const found = std::ranges::find(kNames, name, &std::pair<std::string_view, RowPolicy>::first);
  if (found != kNames.end()) return found->second;
  throw Error(
      ErrorCode::kInvalidArgument,
      {.what = "policy of drafter rows", .expected = "exact, refeed-accepted or trim", .got = "'" + std::string(name) + "'"});
}

std::string_view row_policy_name(RowPolicy policy) {
  return std::ranges::find(kNames, policy, &std::pair<std::string_view, RowPolicy>::second)->first;
}

}  // namespace foretoken
