// What an operator's operands are called, which symbolic shape each has, which dtypes it takes and how exact it must be.
// An operator is a struct with Tensor members (see core/ops/): its schema lists them in the same order as its `operands()`.
#pragma once

#include <array>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/tensor.h"

namespace foretoken {

enum class AccessMode : uint8_t { kRead, kWrite, kReadWrite };

/// One use of device memory by a launch; hazards between launches are derived from these.
struct Access {
  BufferView view;
  AccessMode mode = AccessMode::kRead;
};

/// One operand. A dimension is a name ("T"), a number ("4"), or a product or sum of those ("2*D", "B+1"), `*` before `+`.
/// The single dimension "..." stands for any shape (scales, whose shape depends on the weight's format).
struct OperandSpec {
  std::string name;
  AccessMode access = AccessMode::kRead;
  std::vector<std::string> dims{};
  std::vector<DType> dtypes{};  // empty: any
  bool optional = false;        // may be absent
  bool strided = false;         // rows may be further apart than they are long
};

/// Largest deviation of an output of one dtype from the float64 reference: relative error of a row (formulas.md) and
/// normalised mean squared error.
struct Tolerance {
  double relative = 0.0;
  double nmse = 0.0;
};

class OpSchema {
 public:
  explicit OpSchema(std::string name) : name_(std::move(name)) {}

  OpSchema&& in(std::string name, std::vector<std::string> dims, std::vector<DType> dtypes) &&;
  OpSchema&& out(std::string name, std::vector<std::string> dims, std::vector<DType> dtypes) &&;
  OpSchema&& in_out(std::string name, std::vector<std::string> dims, std::vector<DType> dtypes) &&;
  /// Untyped scratch memory of `workspace_bytes` (see OpTable), U8 of any size.
  OpSchema&& workspace(std::string name) &&;
  /// Marks the operand added last.
  OpSchema&& optional() &&;
  OpSchema&& strided() &&;
  /// Bounds for outputs of `dtype`; the mean squared bound defaults to the square of the relative one. Integer outputs are exact,
  /// and FP8 and FP4 codes without a bound too.
  OpSchema&& tolerance(DType dtype, double relative, std::optional<double> nmse = std::nullopt) &&;

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] std::span<const OperandSpec> operands() const { return operands_; }
  /// Throws InternalError for a float dtype without a declared bound.
  [[nodiscard]] Tolerance tolerance_for(DType dtype) const;

  /// Unifies the symbolic dimensions over all operands and checks presence, dtypes and contiguity.
  /// Throws InvalidArgument that names the operator, the operand and both values: "rms_norm: weight has H=4096, x has H=5120".
  void check(std::span<const Tensor* const> tensors) const;

  /// The memory that a launch over these operands touches, absent ones left out.
  [[nodiscard]] std::vector<Access> accesses(std::span<const Tensor* const> tensors) const;

 private:
  OpSchema&& add(std::string name, AccessMode access, std::vector<std::string> dims, std::vector<DType> dtypes);

  std::string name_;
  std::vector<OperandSpec> operands_;
  std::vector<std::pair<DType, Tolerance>> tolerances_;
};

/// The operands of an operator in schema order.
template <class Op>
std::vector<Access> accesses_of(const Op& op) {
  const auto operands = op.operands();
  return Op::schema().accesses(operands);
}

}  // namespace foretoken
