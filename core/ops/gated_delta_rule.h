// Gated delta net: causal convolution, delta rule, and the commit that replaces rollback.
//   conv:  y[t, c] = silu(sum_{j<4} weight[c, j] * input[t - 3 + j, c]), no bias; state = the last 3 raw inputs per channel,
//   oldest first. delta: beta = sigmoid(b), g = -exp(A_log) * softplus(a + dt_bias); q, k l2-normalised per head (1e-6 under the
//   root), q * 1/sqrt(dk);
//          S = exp(g) S; delta = beta * (v - S^T k); S = S + k delta^T; o = S^T q, with S [dk, dv] in float32 per v head and k
//          head h / (nv/nk) for v head h.
// A verify step leaves the states as they were and records what each row would add; RecurrentCommit, at the start of the next
// step, adds the accepted rows with the same operations in the same order, so the state has the bits of a sequence that never
// speculated.
#pragma once

#include <array>
#include <vector>

#include "core/op_schema.h"
#include "core/ops/linear.h"

namespace foretoken {

template <class Op>
struct OpCase;

/// What happens to the recurrent states.
enum class StateUpdate : uint8_t {
  kInPlace,  // states advance by the rows of the call (prefill, plain decoding)
  kRecord    // states stay, rows are recorded (verify): at most R rows per sequence
};

/// Rows query_start_loc[b] .. query_start_loc[b+1] belong to sequence b, whose state is at state_slots[b]; rows past
/// query_start_loc[B] are padding: not read, not written.
struct CausalConv1dSilu {
  Tensor x;                // [T, C] raw inputs
  Tensor weight;           // [C, 4] F32
  Tensor query_start_loc;  // [B+1] I32
  Tensor state_slots;      // [B] I32
  Tensor conv_state;       // [S, C, 3] F32, oldest first
  Tensor conv_record;      // [S, R, C] F32: raw inputs of each row (kRecord)
  Tensor out;              // [T, C]
  StateUpdate update = StateUpdate::kInPlace;

  [[nodiscard]] std::array<const Tensor*, 7> operands() const {
    return {&x, &weight, &query_start_loc, &state_slots, &conv_state, &conv_record, &out};
  }
  void validate() const;
  static const OpSchema& schema();
  static std::vector<OpCase<CausalConv1dSilu>> cases();
};

struct GatedDeltaRule {
  Tensor qkv;              // [T, C], C = 2*nk*dk + nv*dv: [q | k | v] after the convolution
  Tensor b;                // [T, nv]
  Tensor a;                // [T, nv]
  Tensor A_log;            // [nv] F32
  Tensor dt_bias;          // [nv] F32
  Tensor query_start_loc;  // [B+1] I32
  Tensor state_slots;      // [B] I32
  Tensor state;            // [S, nv, dk, dv] F32
  Tensor key_record;       // [S, R, nk, dk] F32: normalised keys (kRecord)
  Tensor delta_record;     // [S, R, nv, dv] F32
  Tensor decay_record;     // [S, R, nv] F32: exp(g)
  Tensor out;              // [T, nv, dv]
  StateUpdate update = StateUpdate::kInPlace;
  LinearPrecision precision = LinearPrecision::kExact;  // kBF16: queries, keys and the state as a factor may be rounded

  [[nodiscard]] std::array<const Tensor*, 12> operands() const {
    return {&qkv,         &b,     &a,          &A_log,        &dt_bias,      &query_start_loc,
            &state_slots, &state, &key_record, &delta_record, &decay_record, &out};
  }
  [[nodiscard]] int64_t num_key_heads() const { return (qkv.dim(1) - state.dim(1) * state.dim(3)) / (2 * state.dim(2)); }
  void validate() const;
  static const OpSchema& schema();
  static std::vector<OpCase<GatedDeltaRule>> cases();
};

/// Adds the first num_commit[b] recorded rows of sequence b to its states. A count of 0 does nothing. The count must be reset by
/// the step.
struct RecurrentCommit {
  Tensor num_commit;    // [B] I32, 0 .. R
  Tensor state_slots;   // [B] I32
  Tensor conv_record;   // [S, R, C] F32
  Tensor key_record;    // [S, R, nk, dk] F32
  Tensor delta_record;  // [S, R, nv, dv] F32
  Tensor decay_record;  // [S, R, nv] F32
  Tensor conv_state;    // [S, C, 3] F32, updated
  Tensor state;         // [S, nv, dk, dv] F32, updated

  [[nodiscard]] std::array<const Tensor*, 8> operands() const {
    return {&num_commit, &state_slots, &conv_record, &key_record, &delta_record, &decay_record, &conv_state, &state};
  }
  static const OpSchema& schema();
  static std::vector<OpCase<RecurrentCommit>> cases();
};

}  // namespace foretoken
