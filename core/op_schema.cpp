#include "core/op_schema.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "core/error.h"

namespace foretoken {
namespace {

struct Binding {
  std::string_view symbol;
  int64_t value;
  std::string_view operand;
};

bool is_any_shape(const OperandSpec& spec) { return spec.dims.size() == 1 && spec.dims[0] == "..."; }

bool is_name(std::string_view dim) { return dim.find_first_of("*+") == std::string_view::npos && (dim[0] < '0' || dim[0] > '9'); }

const Binding* find(std::span<const Binding> bindings, std::string_view symbol) {
  const auto found = std::ranges::find(bindings, symbol, &Binding::symbol);
  return found == bindings.end() ? nullptr : &*found;
}

/// Value of a name or a number; nothing while the name is unbound.
std::optional<int64_t> value_of(std::string_view term, std::span<const Binding> bindings) {
  int64_t number = 0;
  const auto [end, status] = std::from_chars(term.data(), term.data() + term.size(), number);
  if (status == std::errc() && end == term.data() + term.size()) return number;
  const Binding* binding = find(bindings, term);
  return binding == nullptr ? std::nullopt : std::optional(binding->value);
}

std::optional<int64_t> evaluate(std::string_view expression, std::span<const Binding> bindings) {
  if (const size_t plus = expression.find('+'); plus != std::string_view::npos) {
    const auto left = evaluate(expression.substr(0, plus), bindings);
    const auto right = evaluate(expression.substr(plus + 1), bindings);
    return left && right ? std::optional(*left + *right) : std::nullopt;
  }
  if (const size_t times = expression.find('*'); times != std::string_view::npos) {
    const auto left = evaluate(expression.substr(0, times), bindings);
    const auto right = evaluate(expression.substr(times + 1), bindings);
    return left && right ? std::optional(*left * *right) : std::nullopt;
  }
  return value_of(expression, bindings);
}

std::string dtype_list(std::span<const DType> dtypes) {
  std::string text;
  for (DType dtype : dtypes) text += (text.empty() ? "" : " or ") + std::string(to_string(dtype));
  return text;
}

[[noreturn]] void fail(const std::string& op, const std::string& message) {
  throw Error(ErrorCode::kInvalidArgument, op + ": " + message);
}

void check_operand(const std::string& op, const OperandSpec& spec, const Tensor& tensor) {
  if (!spec.dtypes.empty() && std::ranges::find(spec.dtypes, tensor.dtype()) == spec.dtypes.end()) {
    fail(op, spec.name + " is " + std::string(to_string(tensor.dtype())) + ", expected " + dtype_list(spec.dtypes));
  }
  if (!is_any_shape(spec) && tensor.shape().rank() != spec.dims.size()) {
    fail(op, spec.name + " has shape " + tensor.shape().to_string() + ", expected " + std::to_string(spec.dims.size()) +
                 " dimensions");
  }
  if (!spec.strided && !tensor.is_contiguous()) fail(op, spec.name + " must be contiguous, its rows are strided");
}

}  // namespace

OpSchema&& OpSchema::add(std::string name, AccessMode access, std::vector<std::string> dims, std::vector<DType> dtypes) {
  operands_.push_back({.name = std::move(name), .access = access, .dims = std::move(dims), .dtypes = std::move(dtypes)});
  return std::move(*this);
}

OpSchema&& OpSchema::in(std::string name, std::vector<std::string> dims, std::vector<DType> dtypes) && {
  return add(std::move(name), AccessMode::kRead, std::move(dims), std::move(dtypes));
}

OpSchema&& OpSchema::out(std::string name, std::vector<std::string> dims, std::vector<DType> dtypes) && {
  return add(std::move(name), AccessMode::kWrite, std::move(dims), std::move(dtypes));
}

OpSchema&& OpSchema::in_out(std::string name, std::vector<std::string> dims, std::vector<DType> dtypes) && {
  return add(std::move(name), AccessMode::kReadWrite, std::move(dims), std::move(dtypes));
}

OpSchema&& OpSchema::workspace(std::string name) && {
  const std::string symbol = "bytes(" + name + ")";
  add(std::move(name), AccessMode::kReadWrite, {symbol}, {DType::kU8});
  operands_.back().optional = true;
  return std::move(*this);
}

OpSchema&& OpSchema::optional() && {
  operands_.back().optional = true;
  return std::move(*this);
}

OpSchema&& OpSchema::strided() && {
  operands_.back().strided = true;
  return std::move(*this);
}

OpSchema&& OpSchema::tolerance(DType dtype, double relative, std::optional<double> nmse) && {
  tolerances_.emplace_back(dtype, Tolerance{.relative = relative, .nmse = nmse.value_or(relative * relative)});
  return std::move(*this);
}

Tolerance OpSchema::tolerance_for(DType dtype) const {
  const auto found = std::ranges::find(tolerances_, dtype, [](const auto& entry) { return entry.first; });
  if (found == tolerances_.end()) {
    if (dtype != DType::kF32 && dtype != DType::kBF16) return {};
    throw Error(ErrorCode::kInternalError, name_ + ": no tolerance declared for " + std::string(to_string(dtype)));
  }
  return found->second;
}

void OpSchema::check(std::span<const Tensor* const> tensors) const {
  std::vector<Binding> bindings;
  for (size_t i = 0; i < operands_.size(); ++i) {
    const OperandSpec& spec = operands_[i];
    const Tensor& tensor = *tensors[i];
    if (tensor.is_absent()) {
      if (!spec.optional) fail(name_, spec.name + " is missing");
      continue;
    }
    check_operand(name_, spec, tensor);
    for (size_t axis = 0; axis < spec.dims.size() && !is_any_shape(spec); ++axis) {
      const std::string& dim = spec.dims[axis];
      if (!is_name(dim)) continue;
      const Binding* bound = find(bindings, dim);
      if (bound == nullptr) {
        bindings.push_back({.symbol = dim, .value = tensor.dim(axis), .operand = spec.name});
      } else if (bound->value != tensor.dim(axis)) {
        fail(name_, spec.name + " has " + dim + "=" + std::to_string(tensor.dim(axis)) + ", " + std::string(bound->operand) +
                        " has " + dim + "=" + std::to_string(bound->value));
      }
    }
  }
  for (size_t i = 0; i < operands_.size(); ++i) {
    if (tensors[i]->is_absent()) continue;
    for (size_t axis = 0; axis < operands_[i].dims.size() && !is_any_shape(operands_[i]); ++axis) {
      const std::string& dim = operands_[i].dims[axis];
      const auto expected = is_name(dim) ? std::nullopt : evaluate(dim, bindings);
      if (expected && *expected != tensors[i]->dim(axis)) {
        fail(name_, operands_[i].name + " has " + std::to_string(tensors[i]->dim(axis)) + " in dimension " +
                        std::to_string(axis) + ", expected " + dim + "=" + std::to_string(*expected));
      }
    }
  }
}

std::vector<Access> OpSchema::accesses(std::span<const Tensor* const> tensors) const {
  std::vector<Access> list;
  list.reserve(tensors.size());
  for (size_t i = 0; i < operands_.size(); ++i) {
    if (!tensors[i]->is_absent()) list.push_back({.view = tensors[i]->view(), .mode = operands_[i].access});
  }
  return list;
}

}  // namespace foretoken
