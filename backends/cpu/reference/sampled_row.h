// A row of processed logits as the distribution that it stands for, and draws from it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/ops/sampling_rules.h"
#include "core/tensor.h"

namespace foretoken {

/// Weights of all tokens of row `t`.
[[nodiscard]] std::vector<uint64_t> weights_of_row(const Tensor& logits, int64_t t);
[[nodiscard]] uint64_t sum_of(std::span<const uint64_t> weights);
/// The first index with which the sum of the weights passes the number that `bits` stand for; 0 when all weights are 0.
[[nodiscard]] size_t draw(std::span<const uint64_t> weights, uint64_t bits);
/// The lowest id of the largest logit; NaN never wins.
[[nodiscard]] int64_t best_of_row(const Tensor& logits, int64_t t);

/// Element `i` of a packed I64 tensor, all its bits.
[[nodiscard]] int64_t wide_integer(const Tensor& tensor, int64_t i);
void set_wide_integer(const Tensor& tensor, int64_t i, int64_t value);

/// Parameters of the slot of one row.
struct RowSlot {
  RowSlot(const Tensor& row_slots, int64_t t, const Tensor& reals);

  [[nodiscard]] bool exists() const { return slot >= 0; }
  /// Whether the row is sampled: its temperature is above 0.
  [[nodiscard]] bool is_sampled() const { return temperature > 0.0; }

  int64_t slot = -1;
  double temperature = 0.0;
};

}  // namespace foretoken
