// Greedy acceptance on the device: a = the number of leading drafts that equal the target's picks.
#pragma once

#include <array>
#include <vector>

#include "core/op_schema.h"

namespace foretoken {

template <class Op>
struct OpCase;

/// num_accepted[b] = max a with draft_token_ids[b, j] == target_token_ids[b, j] for all j < a. The first a + 1 rows of the verify
/// step become part of the sequence.
struct AcceptGreedy {
  Tensor draft_token_ids;   // [B, K] I32
  Tensor target_token_ids;  // [B, K+1] I32
  Tensor num_accepted;      // [B] I32

  [[nodiscard]] std::array<const Tensor*, 3> operands() const { return {&draft_token_ids, &target_token_ids, &num_accepted}; }
  static const OpSchema& schema();
  static std::vector<OpCase<AcceptGreedy>> cases();
};

/// token_ids[i] = forced[i] where forced[i] >= 0: drafts replaced by a caller, for tests and benchmarks that choose accept
/// counts.
struct OverrideTokens {
  Tensor forced;     // [K] I32, -1 keeps the draft
  Tensor token_ids;  // [K] I32, updated

  [[nodiscard]] std::array<const Tensor*, 2> operands() const { return {&forced, &token_ids}; }
  static const OpSchema& schema();
  static std::vector<OpCase<OverrideTokens>> cases();
};

}  // namespace foretoken
