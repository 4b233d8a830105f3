// out_i[t, n] = sum_k x[t, k] * weight_i[n, k] for up to four weights: projections of the same rows in one launch.
#pragma once

#include <array>
#include <vector>

#include "core/ops/linear.h"

namespace foretoken {

/// Each out_i has the bits that Linear gives it, so at kExact they depend on x and weight_i alone: neither on the number of rows
/// nor on the company of the other weights, which may differ in rows and in format.
struct LinearGroup {
  static constexpr size_t kMaxProjections = 4;

  Tensor x;                                       // [T, K]
  std::array<LinearWeight, kMaxProjections> w{};  // [N_i, K]; absent ones at the end
  std::array<Tensor, kMaxProjections> out{};      // [T, N_i]; absent where w_i is
  Tensor workspace;
  LinearPrecision precision = LinearPrecision::kExact;

  /// Weights that are there.
  [[nodiscard]] size_t num_projections() const;
  /// Projection `i` alone, with the workspace of the group.
  [[nodiscard]] Linear projection(size_t i) const;

  [[nodiscard]] std::array<const Tensor*, 2 + 4 * kMaxProjections> operands() const;
  void validate() const;
  static const OpSchema& schema();
  static std::vector<OpCase<LinearGroup>> cases();
};

}  // namespace foretoken
