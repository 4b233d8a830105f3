// The token ids of a step on the device: which ids it feeds, and how many drafts among them hold.
#pragma once

#include <array>
#include <vector>

#include "core/op_schema.h"

namespace foretoken {

template <class Op>
struct OpCase;

/// token_ids[t] = host_token_ids[t] where that is >= 0, else source[source_rows[t]]: ids that the host knows (the newest token,
/// drafts chosen by a caller) among those that only the device has (drafts). A row of the source that does not exist gives -1.
struct SelectTokens {
  Tensor host_token_ids;  // [T] I32, -1: the source's
  Tensor source;          // [N] I32
  Tensor source_rows;     // [T] I32
  Tensor token_ids;       // [T] I32

  [[nodiscard]] std::array<const Tensor*, 4> operands() const { return {&host_token_ids, &source, &source_rows, &token_ids}; }
  static const OpSchema& schema();
  static std::vector<OpCase<SelectTokens>> cases();
};

/// Acceptance of drafts by equality. The rows of sequence b, query_start_loc[b] .. query_start_loc[b+1], are its newest token and
/// its drafts; target_token_ids[t] is the target's pick after row t. num_accepted[b] = the number of leading drafts that each
/// equal the pick after the row before them; 0 for a sequence without rows. Its first num_accepted[b] + 1 rows become part of the
/// sequence.
struct AcceptDrafts {
  Tensor token_ids;         // [T] I32, fed
  Tensor target_token_ids;  // [T] I32
  Tensor query_start_loc;   // [B+1] I32
  Tensor num_accepted;      // [B] I32

  [[nodiscard]] std::array<const Tensor*, 4> operands() const {
    return {&token_ids, &target_token_ids, &query_start_loc, &num_accepted};
  }
  static const OpSchema& schema();
  static std::vector<OpCase<AcceptDrafts>> cases();
};

}  // namespace foretoken
