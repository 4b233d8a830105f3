// out[t, n] = sum_k x[t, k] * weight[n, k], accumulated in float32.
#pragma once

#include <array>
#include <vector>

#include "core/linear_weight.h"
#include "core/op_schema.h"

namespace foretoken {

template <class Op>
struct OpCase;

/// How a linear layer may treat its activations.
enum class LinearPrecision : uint8_t {
  kExact,  // as they are, and row-invariant: row t of T rows has the bits of the same row alone
  kBF16    // may be rounded to BF16 and may use matrix hardware: prefill only, on a fixed grid of chunks
};

struct Linear {
  Tensor x;        // [T, K]
  LinearWeight w;  // [N, K]
  Tensor out;      // [T, N]
  Tensor workspace;
  LinearPrecision precision = LinearPrecision::kExact;

  [[nodiscard]] std::array<const Tensor*, 6> operands() const {
    return {&x, &w.weight, &w.scale, &w.global_scale, &out, &workspace};
  }
  void validate() const;
  static const OpSchema& schema();
  static std::vector<OpCase<Linear>> cases();
};

/// out = silu(x gate^T) * (x up^T): the two projections of a gated feed-forward in one pass over x.
struct LinearSiluMul {
  Tensor x;           // [T, K]
  LinearWeight gate;  // [N, K]
  LinearWeight up;    // [N, K], the same format
  Tensor out;         // [T, N]
  Tensor workspace;
  LinearPrecision precision = LinearPrecision::kExact;

  [[nodiscard]] std::array<const Tensor*, 9> operands() const {
    return {&x, &gate.weight, &gate.scale, &gate.global_scale, &up.weight, &up.scale, &up.global_scale, &out, &workspace};
  }
  void validate() const;
  static const OpSchema& schema();
  static std::vector<OpCase<LinearSiluMul>> cases();
};

/// The LM head fused with argmax: no logits are written. Each logit has the bits that Linear (kExact) would give it.
/// n_t = argmax_n (ties: the lowest n; NaN never wins, a row of NaN gives 0); token_ids[t] = token_map[n_t], or n_t without a
/// map; logprobs[t] = logit n_t - log sum exp of the row.
struct LinearArgmax {
  Tensor x;            // [T, K]
  LinearWeight w;      // [N, K]
  Tensor token_map{};  // [N] I32, the token of each row of w; may be absent
  Tensor token_ids;    // [T] I32
  Tensor logprobs;     // [T] F32, may be absent
  Tensor workspace;

  [[nodiscard]] std::array<const Tensor*, 8> operands() const {
    return {&x, &w.weight, &w.scale, &w.global_scale, &token_map, &token_ids, &logprobs, &workspace};
  }
  void validate() const;
  static const OpSchema& schema();
  static std::vector<OpCase<LinearArgmax>> cases();
};

}  // namespace foretoken
