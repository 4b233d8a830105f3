// A case of any operator, with the operator's type forgotten.
#pragma once

#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "backends/cpu/reference/reference.h"
#include "backends/ops.h"
#include "core/error.h"
#include "core/op_case.h"

namespace foretoken {

/// One operator over the operands of one maker.
class RunnableOp {
 public:
  RunnableOp() = default;
  RunnableOp(const RunnableOp&) = delete;
  RunnableOp& operator=(const RunnableOp&) = delete;
  virtual ~RunnableOp() = default;

  /// The operator structure, for OpImplementation.
  [[nodiscard]] virtual const void* get() const = 0;
  [[nodiscard]] virtual std::vector<const Tensor*> operands() const = 0;
  /// Throws InvalidArgument when the operands do not satisfy the schema.
  virtual void check() const = 0;
  virtual void run_reference() const = 0;
  virtual void set_workspace(const Tensor& workspace) = 0;
  /// Whether id `got`, at `element` of an integer output, is not the reference's but as good within the schema's tolerance.
  [[nodiscard]] virtual bool accepts_id(const std::string& operand, int64_t element, int64_t got) const = 0;
};

template <class Op>
class TypedOp final : public RunnableOp {
 public:
  explicit TypedOp(Op op) : op_(std::move(op)) {}

  [[nodiscard]] const void* get() const override { return &op_; }
  [[nodiscard]] std::vector<const Tensor*> operands() const override {
    const auto list = op_.operands();
    return {list.begin(), list.end()};
  }
  void check() const override { ops::check(op_); }
  void run_reference() const override { reference(op_); }
  void set_workspace(const Tensor& workspace) override {
    if constexpr (requires { op_.workspace; }) {
      op_.workspace = workspace;
    } else {
      throw Error(ErrorCode::kInternalError, Op::schema().name() + ": an implementation asks for a workspace it cannot be given");
    }
  }
  [[nodiscard]] bool accepts_id(const std::string& operand, int64_t element, int64_t got) const override {
    if constexpr (std::is_same_v<Op, LinearArgmax>) {
      return operand == "token_ids" && is_near_tie(element, got);
    } else {
      return false;
    }
  }

 private:
  /// A logit that rounding may put in front; an exact tie is no excuse, the lowest id must win it.
  [[nodiscard]] bool is_near_tie(int64_t t, int64_t got) const requires std::is_same_v<Op, LinearArgmax> {
    const std::vector<double> logits = reference_logits(op_, t);
    if (got < 0 || got >= static_cast<int64_t>(logits.size())) return false;
    double best = -std::numeric_limits<double>::infinity();
    double scale = 0.0;
    for (const double logit : logits) {
      best = std::fmax(best, logit);
      scale = std::fmax(scale, std::fabs(logit));
    }
    const double behind = best - logits[static_cast<size_t>(got)];
    return behind > 0.0 && behind <= Op::schema().tolerance_for(DType::kF32).relative * scale;
  }

  Op op_;
};

struct RunnableCase {
  std::string name;
  const OpSchema& schema;
  double tolerance_override;
  std::function<std::unique_ptr<RunnableOp>(OperandMaker&)> make;
};

/// All cases of an operator.
template <class Op>
std::vector<RunnableCase> runnable_cases() {
  std::vector<RunnableCase> list;
  for (const OpCase<Op>& one : Op::cases()) {
    list.push_back({.name = one.name,
                    .schema = Op::schema(),
                    .tolerance_override = one.tolerance_override,
                    .make = [make = one.make](OperandMaker& maker) { return std::make_unique<TypedOp<Op>>(make(maker)); }});
  }
  return list;
}

}  // namespace foretoken
