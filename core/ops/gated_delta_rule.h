// Gated delta net: causal convolution, delta rule with its gated norm, and the commit that replaces rollback.
//   conv:  y[t, c] = silu(sum_{j<4} weight[c, j] * input[t - 3 + j, c]), no bias; state = the last 3 raw inputs per channel,
//   oldest first. delta: beta = sigmoid(b), g = -exp(A_log) * softplus(a + dt_bias); q, k l2-normalised per head (1e-6 under the
//   root), q * 1/sqrt(dk);
//          S = exp(g) S; delta = beta * (v - S^T k); S = S + k delta^T; o = S^T q, with S [dk, dv] in float32 per v head and k
//          head h / (nv/nk) for v head h. norm: out = weight * o / sqrt(mean(o^2) + eps) * silu(z) per v head, plain weight.
// A verify step leaves the states as they were and records what each row would add. Both operators of the next step first add the
// num_commit rows of those that were accepted, with the same operations in the same order, so the states have the bits of a
// sequence that never speculated. A sequence without rows in the call keeps states and records.
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
  kRecord    // states stay as committed, rows are recorded (verify): at most R rows per sequence
};

/// Rows query_start_loc[b] .. query_start_loc[b+1] belong to sequence b, whose state is at state_slots[b]; rows past
/// query_start_loc[B] are padding: not read, not written.
struct CausalConv1dSilu {
  Tensor x;                // [T, C] raw inputs
  Tensor weight;           // [C, 4] F32
  Tensor query_start_loc;  // [B+1] I32
  Tensor state_slots;      // [B] I32
  Tensor num_commit;       // [B] I32, 0 .. R: rows of conv_record that go into the state first; absent: none
  Tensor conv_state;       // [S, C, 3] F32, oldest first
  Tensor conv_record;      // [S, R, C] F32: raw inputs of each row (kRecord or num_commit)
  Tensor out;              // [T, C]
  StateUpdate update = StateUpdate::kInPlace;

  [[nodiscard]] std::array<const Tensor*, 8> operands() const {
    return {&x, &weight, &query_start_loc, &state_slots, &num_commit, &conv_state, &conv_record, &out};
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
  Tensor num_commit;       // [B] I32, 0 .. R: recorded rows that go into the state first; absent: none
  Tensor state;            // [S, nv, dk, dv] F32
  Tensor key_record;       // [S, R, nv, dk] F32: normalised key of each v head (the records: kRecord or num_commit)
  Tensor delta_record;     // [S, R, nv, dv] F32
  Tensor decay_record;     // [S, R, nv] F32: exp(g)
  Tensor z;                // [T, nv, dv]; absent: out = o, without the gated norm
  Tensor norm;             // [dv] F32, there when z is
  Tensor out;              // [T, nv, dv]
  Tensor workspace{};
  float eps = 1e-6F;
  StateUpdate update = StateUpdate::kInPlace;
  LinearPrecision precision = LinearPrecision::kExact;  // kBF16: queries, keys and the state as a factor may be rounded

  [[nodiscard]] std::array<const Tensor*, 16> operands() const {
    return {&qkv,         &b,          &a,     &A_log,      &dt_bias,      &query_start_loc,
            &state_slots, &num_commit, &state, &key_record, &delta_record, &decay_record,
            &z,           &norm,       &out,   &workspace};
  }
  [[nodiscard]] int64_t num_key_heads() const { return (qkv.dim(1) - state.dim(1) * state.dim(3)) / (2 * state.dim(2)); }
  void validate() const;
  static const OpSchema& schema();
  static std::vector<OpCase<GatedDeltaRule>> cases();
};

}  // namespace foretoken
