#include "backends/conformance/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "backends/cpu/reference/host_tensor.h"

namespace foretoken {
namespace {

constexpr int64_t kShortestRow = 16;      // shorter rows are joined: a lone element near 0 has no meaningful relative error
constexpr double kSmallestScale = 1e-30;  // below this a row counts as zero: float32 kernels may flush it

/// One written operand in logical order, without the gaps between its rows.
struct Contents {
  std::vector<double> values;
  ByteImage bytes;
};

Contents contents_of(const Tensor& tensor, const ByteImage& image) {
  Contents contents;
  const std::byte* data = image.data() + tensor.view().offset;
  const auto bits = static_cast<int64_t>(dtype_bits(tensor.dtype()));
  const int64_t width = tensor.shape().row_elements();
  for (int64_t row = 0; row < tensor.dim(0); ++row) {
    const int64_t first = row * tensor.row_stride();
    for (int64_t i = 0; i < width; ++i) contents.values.push_back(load_element(data, tensor.dtype(), first + i));
    contents.bytes.insert(contents.bytes.end(), data + first * bits / 8, data + ((first + width) * bits + 7) / 8);
  }
  return contents;
}

/// Elements per row of the error measure.
size_t row_width(const Shape& shape) {
  int64_t width = 1;
  for (size_t axis = shape.rank(); axis-- > 0 && width < kShortestRow;) width *= shape[axis];
  return static_cast<size_t>(std::max<int64_t>(width, 1));
}

std::string position(const Shape& shape, size_t element) {
  std::vector<int64_t> indices(shape.rank());
  auto rest = static_cast<int64_t>(element);
  for (size_t axis = shape.rank(); axis-- > 0;) {
    indices[axis] = rest % shape[axis];
    rest /= shape[axis];
  }
  return fmt::format("[{}]", fmt::join(indices, ", "));
}

/// A row along the last axis that the reference leaves alone must keep its bits.
std::string find_touched_row(const Tensor& tensor, const Contents& initial, const Contents& expected, const Contents& actual) {
  const Shape& shape = tensor.shape();
  const auto width = static_cast<size_t>(shape[shape.rank() - 1]);
  const size_t row_bytes = width * dtype_bits(tensor.dtype()) / 8;
  for (size_t begin = 0; row_bytes > 0 && begin < expected.bytes.size(); begin += row_bytes) {
    const auto same_as_initial = [&](const Contents& other) {
      return std::equal(other.bytes.begin() + static_cast<std::ptrdiff_t>(begin),
                        other.bytes.begin() + static_cast<std::ptrdiff_t>(begin + row_bytes),
                        initial.bytes.begin() + static_cast<std::ptrdiff_t>(begin));
    };
    if (same_as_initial(expected) && !same_as_initial(actual)) {
      return "the row at " + position(shape, begin / row_bytes * width) + " must stay as it was, bit for bit";
    }
  }
  return {};
}

std::string difference(const Shape& shape, size_t element, double got, double expected) {
  return fmt::format("{} at {}, expected {}", got, position(shape, element), expected);
}

/// Accumulates the error of one operand.
class ErrorMeasure {
 public:
  ErrorMeasure(const Shape& shape, Tolerance tolerance) : shape_(shape), tolerance_(tolerance) {}

  void add_row(std::span<const double> got, std::span<const double> expected, size_t first) {
    double scale = kSmallestScale;
    double worst = -1.0;
    size_t worst_at = 0;
    for (size_t i = 0; i < got.size(); ++i) {
      const bool finite = std::isfinite(expected[i]);
      if (!finite || !std::isfinite(got[i])) {
        const bool agree = std::isnan(expected[i]) ? std::isnan(got[i]) : got[i] == expected[i];
        if (!agree && failure_.empty()) failure_ = difference(shape_, first + i, got[i], expected[i]);
        continue;
      }
      const double error = std::fabs(got[i] - expected[i]);
      scale = std::max(scale, std::fabs(expected[i]));
      squared_error_ += error * error;
      squared_expected_ += expected[i] * expected[i];
      if (error > worst) {
        worst = error;
        worst_at = i;
      }
    }
    if (worst < 0.0 || worst / scale <= relative_) return;
    relative_ = worst / scale;
    if (relative_ > tolerance_.relative) {
      worst_text_ = fmt::format("relative error {:.2e}, allowed {:.2e}: {}", relative_, tolerance_.relative,
                                difference(shape_, first + worst_at, got[worst_at], expected[worst_at]));
    }
  }

  [[nodiscard]] double relative() const { return relative_; }
  [[nodiscard]] std::string failure() const {
    if (!failure_.empty()) return failure_;
    if (!worst_text_.empty()) return worst_text_;
    const double nmse = squared_error_ / std::max(squared_expected_, kSmallestScale);
    if (nmse <= tolerance_.nmse) return {};
    return fmt::format("normalised mean squared error {:.2e}, allowed {:.2e}", nmse, tolerance_.nmse);
  }

 private:
  Shape shape_;
  Tolerance tolerance_;
  double relative_ = 0.0;
  double squared_error_ = 0.0;
  double squared_expected_ = 0.0;
  std::string failure_;
  std::string worst_text_;
};

std::string compare_integers(const ComparedOp& op, const std::string& name, const Tensor& tensor, const Contents& expected,
                             const Contents& actual) {
  for (size_t i = 0; i < expected.values.size(); ++i) {
    if (actual.values[i] == expected.values[i]) continue;
    const auto got = static_cast<int64_t>(actual.values[i]);
    if (op.accepts_id(name, static_cast<int64_t>(i), got)) continue;
    return difference(tensor.shape(), i, actual.values[i], expected.values[i]);
  }
  return {};
}

/// Codes of quantised weights must have the same bits: 0 and -0 differ, and NaN has one code.
std::string compare_codes(const Tensor& tensor, const Contents& expected, const Contents& actual) {
  const auto different = std::ranges::mismatch(expected.bytes, actual.bytes);
  if (different.in1 == expected.bytes.end()) return {};
  const auto byte = static_cast<size_t>(different.in1 - expected.bytes.begin());
  return fmt::format("code 0x{:02x} at {}, expected 0x{:02x}", std::to_integer<unsigned>(*different.in2),
                     position(tensor.shape(), byte * 8 / dtype_bits(tensor.dtype())), std::to_integer<unsigned>(*different.in1));
}

/// Compares one written operand; the result's failure does not name it yet.
Comparison compare_operand(const ComparedOp& op, const std::string& name, const Tensor& tensor, const RunImages& images) {
  const size_t slot = op.memory.slot_of(tensor);
  const Contents initial = contents_of(tensor, images.initial[slot]);
  const Contents expected = contents_of(tensor, images.expected[slot]);
  const Contents actual = contents_of(tensor, images.actual[slot]);
  Comparison result;
  result.failure = find_touched_row(tensor, initial, expected, actual);
  if (!result.failure.empty()) return result;
  Tolerance tolerance = op.schema.tolerance_for(tensor.dtype());
  if ((tensor.dtype() == DType::kE4M3 || tensor.dtype() == DType::kE2M1) && tolerance.relative == 0.0) {
    result.failure = compare_codes(tensor, expected, actual);
    return result;
  }
  if (tensor.dtype() != DType::kF32 && tensor.dtype() != DType::kBF16 && tolerance.relative == 0.0) {
    result.failure = compare_integers(op, name, tensor, expected, actual);
    return result;
  }
  if (op.tolerance_override > 0.0) {
    tolerance = {.relative = op.tolerance_override, .nmse = op.tolerance_override * op.tolerance_override};
  }
  ErrorMeasure measure(tensor.shape(), tolerance);
  const size_t width = row_width(tensor.shape());
  for (size_t first = 0; first < expected.values.size(); first += width) {
    const size_t count = std::min(width, expected.values.size() - first);
    measure.add_row(std::span(actual.values).subspan(first, count), std::span(expected.values).subspan(first, count), first);
  }
  return {.failure = measure.failure(), .relative_error = measure.relative(), .tolerance = tolerance.relative};
}

/// Marks the bytes of a tensor's elements.
void mark_elements(const Tensor& tensor, std::vector<bool>& marks) {
  const size_t bits = dtype_bits(tensor.dtype());
  const size_t row_bytes = dtype_bytes(tensor.dtype(), static_cast<size_t>(tensor.shape().row_elements()));
  for (int64_t row = 0; row < tensor.dim(0); ++row) {
    const size_t begin = tensor.view().offset + bits * static_cast<size_t>(row * tensor.row_stride()) / 8;
    std::fill_n(marks.begin() + static_cast<std::ptrdiff_t>(begin), row_bytes, true);
  }
}

/// Bytes outside of written operands must be what they were.
std::string find_stray_write(const ComparedOp& op, const RunImages& images) {
  const auto specs = op.schema.operands();
  for (size_t slot = 0; slot < images.initial.size(); ++slot) {
    std::vector<bool> writable(images.initial[slot].size(), false);
    std::string name;
    for (size_t i = 0; i < specs.size(); ++i) {
      if (op.operands[i]->is_absent() || op.memory.slot_of(*op.operands[i]) != slot) continue;
      name += (name.empty() ? "" : "/") + specs[i].name;
      if (specs[i].access != AccessMode::kRead) mark_elements(*op.operands[i], writable);
    }
    std::string stray =
        describe_stray_write(name, op.memory.operand_bytes(slot), writable, images.initial[slot], images.actual[slot]);
    if (!stray.empty()) return stray;
  }
  return {};
}

double share_of_bound(const Comparison& comparison) {
  return comparison.tolerance > 0.0 ? comparison.relative_error / comparison.tolerance : comparison.relative_error;
}

}  // namespace

std::string describe_stray_write(const std::string& name, size_t operand_bytes, const std::vector<bool>& writable,
                                 const ByteImage& initial, const ByteImage& actual) {
  for (size_t i = 0; i < initial.size(); ++i) {
    if (writable[i] || actual[i] == initial[i]) continue;
    if (i < OperandSet::kGuardBytes) return fmt::format("{}: wrote {} bytes before its start", name, OperandSet::kGuardBytes - i);
    const size_t end = OperandSet::kGuardBytes + operand_bytes;
    if (i >= end)
      return fmt::format("{}: wrote past its end, at byte {} of {}", name, i - OperandSet::kGuardBytes, operand_bytes);
    return fmt::format("{}: changed byte {}, which is an input or between rows", name, i - OperandSet::kGuardBytes);
  }
  return {};
}

Comparison compare_run(const ComparedOp& op, const RunImages& images) {
  Comparison result{.failure = find_stray_write(op, images)};
  const auto specs = op.schema.operands();
  for (size_t i = 0; i < specs.size(); ++i) {
    if (op.operands[i]->is_absent() || specs[i].access == AccessMode::kRead) continue;
    const Comparison one = compare_operand(op, specs[i].name, *op.operands[i], images);
    if (result.failure.empty() && !one.failure.empty()) result.failure = specs[i].name + ": " + one.failure;
    if (share_of_bound(one) >= share_of_bound(result)) {
      result.relative_error = one.relative_error;
      result.tolerance = one.tolerance;
    }
  }
  return result;
}

}  // namespace foretoken
