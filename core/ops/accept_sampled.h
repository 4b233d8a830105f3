// Verification of drafts at any temperature: the text has the distribution of plain sampling.
#pragma once

#include <array>
#include <vector>

#include "core/op_schema.h"
#include "core/ops/sampling_rules.h"

namespace foretoken {

template <class Op>
struct OpCase;

/// Rows query_start_loc[b] .. query_start_loc[b+1] of a step are sequence b's newest token and its K drafts; slot s =
/// row_slots[first]. Draft j (1 .. K) is X_j = token_ids[first + j], drawn from q_j, the candidates of row block_rows[b] of draft
/// j - 1; p_j is the distribution of logits[first + j], so X_j is checked against p_(j-1). A draft that is not among its
/// candidates was chosen, not drawn: its q is 1 at X_j. u_j = unit_interval(random_bits(seeds[s], positions[first], kAccept, j)).
///
/// - Greedy drafts, temperature 0, and slots that are not one of the S: the leading drafts that equal the pick after the row
///   before them are accepted; picks stay.
/// - kRejection: accepted while u_j < p_(j-1)(X_j) / q_j(X_j). c = 1.
/// - kBlock (Sun et al. 2024, arXiv 2403.10444, algorithm 2): c_0 = 1, c_j = min(1, c_(j-1) p_(j-1)(X_j) / q_j(X_j));
///   m_j = sum_v max(c_j p_j(v) - q_(j+1)(v), 0), h_j = m_j / (m_j + 1 - c_j) for j < K, 0 where m_j is, and h_K = c_K. Accepted
///   is the largest j with u_j < h_j; 0 without one. c = c_accepted.
/// With a accepted of K drafts, a < K, the token after them is drawn from max(c p_a(v) - q_(a+1)(v), 0) with the number of
/// (positions[first + a], kToken), by rising id as in SampleTokens, weights being those of residual_weight; where nothing is left
/// of them by rounding, and where a = K, it is the row's pick. Then picks[first + j - 1] = X_j for j <= a, and picks[first + a]
/// is that token: as after AcceptDrafts, the first a + 1 picks of a sequence are what it emits.
///
/// num_accepted[b] = a; 0 for a sequence without rows.
struct AcceptSampled {
  Tensor logits;             // [T, V] F32, as ProcessLogits leaves them
  Tensor weight_sums;        // [T] I64, of SampleTokens
  Tensor token_ids;          // [T] I32, fed
  Tensor row_slots;          // [T] I32
  Tensor positions;          // [T] I32
  Tensor query_start_loc;    // [B+1] I32; at most 1 + kMaxVerifiedDrafts rows each
  Tensor block_rows;         // [B] I32, row of the candidates of each sequence
  Tensor candidate_ids;      // [K, Q, C] I32, by rising id, up to the first -1
  Tensor candidate_weights;  // [K, Q, C] I64
  Tensor reals;              // [S, 6] F32
  Tensor integers;           // [S, 3] I32
  Tensor seeds;              // [S] I64
  Tensor picks;              // [T] I32, of SampleTokens; updated
  Tensor num_accepted;       // [B] I32

  [[nodiscard]] std::array<const Tensor*, 14> operands() const {
    return {&logits,        &weight_sums,       &token_ids, &row_slots, &positions, &query_start_loc, &block_rows,
            &candidate_ids, &candidate_weights, &reals,     &integers,  &seeds,     &picks,           &num_accepted};
  }
  void validate() const;
  static const OpSchema& schema();
  static std::vector<OpCase<AcceptSampled>> cases();
};

}  // namespace foretoken
