// Which cache rows of a draft chain stay after a verify. The text never depends on it; acceptance does.
//
// A propose whose newest row has pair key p-1 leaves d rows: that one, built from the target's hidden state, and d-1 of chained
// passes with the keys p .. p+d-2. After a of the d drafts were accepted the sequence has a+1 tokens more, so the next propose's
// newest row has pair key p+a. Dropping a row makes the rows of the next propose follow in its place; a key that is left out
// leaves no gap in the cache, since rows keep their rotary positions.
#pragma once

#include <cstdint>
#include <string_view>

namespace foretoken {

enum class RowPolicy : uint8_t {
  kExact,           // every committed token's row, from the target's hidden state: keys p .. p+a are taken in
  kRefeedAccepted,  // the same where a draft was accepted; where none was, the newest row goes with the rejected ones
  kTrim             // rows of accepted drafts stay as the chain made them; only key p+a is taken in, and p+a-1 is left out
};

/// What a verify does to the rows of a propose.
struct RowsAfterVerify {
  int64_t num_dropped = 0;   // from the tail
  int64_t num_left_out = 0;  // of the a+1 keys p .. p+a, the first ones, which are not taken in
};

/// `num_drafted` >= 1, 0 <= num_accepted <= num_drafted.
[[nodiscard]] RowsAfterVerify rows_after_verify(RowPolicy policy, int64_t num_drafted, int64_t num_accepted);

/// "exact", "refeed-accepted" or "trim". Throws InvalidArgument that lists them.
[[nodiscard]] RowPolicy parse_row_policy(std::string_view name);
[[nodiscard]] std::string_view row_policy_name(RowPolicy policy);

}  // namespace foretoken
