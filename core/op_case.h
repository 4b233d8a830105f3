// Test cases of an operator, declared beside it: shapes of real models and awkward ones, with recipes for random contents.
#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "core/tensor.h"

namespace foretoken {

/// Writes the values of one operand; they are rounded to its dtype afterwards. Draws from the generator only, so a seed gives the
/// case.
using Fill = std::function<void(std::mt19937_64& generator, std::span<double> values)>;

namespace fill {
/// Uniform in [low, high).
Fill uniform(double low, double high);
/// Normal with mean 0.
Fill normal(double sigma);
Fill constant(double value);
/// Uniform integers in [low, high].
Fill integers(int64_t low, int64_t high);
/// Exactly these values. Throws InternalError when the operand has another number of elements.
Fill values(std::vector<double> list);
}  // namespace fill

/// Makes the operands of one run of a case. The conformance suite has one for the device under test and one for host memory,
/// called in lockstep with the same seed, so both see the same bytes.
class OperandMaker {
 public:
  OperandMaker() = default;
  OperandMaker(const OperandMaker&) = delete;
  OperandMaker& operator=(const OperandMaker&) = delete;
  virtual ~OperandMaker() = default;

  /// Seed of this run: operands that depend on each other (routes, block tables) are drawn from it. Shapes and attributes must
  /// not depend on it, because a recorded run is replayed with other seeds.
  [[nodiscard]] virtual uint64_t seed() const = 0;
  virtual Tensor input(DType dtype, const Shape& shape, const Fill& fill) = 0;
  /// Starts as NaN (integers: a poison value); compared afterwards.
  virtual Tensor output(DType dtype, const Shape& shape) = 0;
  /// Starts as `fill` says; compared afterwards.
  virtual Tensor in_out(DType dtype, const Shape& shape, const Fill& fill) = 0;
  /// Scratch of `bytes`, poisoned, never compared.
  virtual Tensor workspace(size_t bytes) = 0;
  /// A 2-D operand whose rows are `row_stride` elements apart; the gaps must stay untouched. `fill` empty: an output.
  virtual Tensor strided(DType dtype, const Shape& shape, int64_t row_stride, const Fill& fill) = 0;
};

/// One case of an operator: `make` builds the operator over operands from the maker and leaves its workspace absent (whoever runs
/// the case asks the implementation for the size). Names contain "act-bf16" where activations are BF16.
template <class Op>
struct OpCase {
  std::string name;
  std::function<Op(OperandMaker& maker)> make;
  double tolerance_override = 0.0;  // relative bound of this case; 0: the schema's
};

}  // namespace foretoken
