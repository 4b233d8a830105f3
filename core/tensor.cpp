#include "core/tensor.h"

#include <string>

#include "core/error.h"

namespace foretoken {
namespace {

/// Elements from the first to one past the last, gaps between rows included.
int64_t span_elements(const Shape& shape, int64_t row_stride) {
  if (shape.num_elements() == 0) return 0;
  return shape.rank() == 0 ? 1 : (shape[0] - 1) * row_stride + shape.row_elements();
}

[[noreturn]] void throw_range(const char* what, int64_t begin, int64_t count, const Shape& shape) {
  throw Error(ErrorCode::kInvalidArgument, {.what = what,
                                            .expected = "a range within " + shape.to_string(),
                                            .got = "[" + std::to_string(begin) + ", " + std::to_string(begin + count) + ")"});
}

}  // namespace

BufferView BufferView::slice(size_t begin, size_t count) const {
  if (begin > bytes || count > bytes - begin) {
    throw Error(ErrorCode::kInvalidArgument, {.what = "slice reaches past the end of a buffer view",
                                              .expected = "at most " + std::to_string(bytes) + " bytes",
                                              .got = std::to_string(begin) + " + " + std::to_string(count)});
  }
  return {.buffer = buffer, .offset = offset + begin, .bytes = count};
}

NativeMemory BufferView::native() const {
  if (buffer == nullptr) return {};
  const NativeMemory whole = buffer->native();
  return {.handle = whole.handle, .offset = whole.offset + offset, .bytes = bytes};
}

bool BufferView::overlaps(const BufferView& other) const {
  if (buffer == nullptr || other.buffer == nullptr) return false;
  const DeviceAddress begin = address();  // not the buffers: two of them may view one memory of the caller
  const DeviceAddress other_begin = other.address();
  return begin < other_begin + other.bytes && other_begin < begin + bytes;
}

Tensor::Tensor(BufferView view, DType dtype, const Shape& shape)
    : dtype_(dtype), shape_(shape), row_stride_(shape.row_elements()) {
  view_ = view.slice(0, dtype_bytes(dtype, static_cast<size_t>(shape.num_elements())));
}

Tensor Tensor::strided(BufferView view, DType dtype, const Shape& shape, int64_t row_stride) {
  if (shape.rank() == 0 || row_stride < shape.row_elements()) {
    throw Error(ErrorCode::kInvalidArgument, {.what = "stride between rows of " + shape.to_string(),
                                              .expected = "at least the elements of a row",
                                              .got = std::to_string(row_stride)});
  }
  Tensor tensor = shape_only(dtype, shape);
  tensor.row_stride_ = row_stride;
  tensor.view_ = view.slice(0, dtype_bytes(dtype, static_cast<size_t>(span_elements(shape, row_stride))));
  return tensor;
}

Tensor Tensor::shape_only(DType dtype, const Shape& shape) {
  Tensor tensor;
  tensor.dtype_ = dtype;
  tensor.shape_ = shape;
  tensor.row_stride_ = shape.row_elements();
  return tensor;
}

bool Tensor::is_contiguous() const { return shape_.rank() == 0 || shape_[0] <= 1 || row_stride_ == shape_.row_elements(); }

size_t Tensor::bytes() const { return is_absent() ? 0 : dtype_bytes(dtype_, static_cast<size_t>(shape_.num_elements())); }

Tensor Tensor::with_window(int64_t element_offset, const Shape& shape, int64_t row_stride) const {
  Tensor window = *this;
  window.shape_ = shape;
  window.row_stride_ = row_stride;
  const size_t begin = dtype_bits(dtype_) * static_cast<size_t>(element_offset) / 8;
  window.view_.offset = view_.offset + begin;
  window.view_.bytes = dtype_bytes(dtype_, static_cast<size_t>(span_elements(shape, row_stride)));
  return window;
}

Tensor Tensor::rows(int64_t begin, int64_t count) const {
  if (shape_.rank() == 0 || begin < 0 || count < 0 || begin + count > shape_[0]) {
    throw_range("row range out of bounds", begin, count, shape_);
  }
  return with_window(begin * row_stride_, shape_.with_rows(count), row_stride_);
}

Tensor Tensor::columns(int64_t begin, int64_t count) const {
  if (shape_.rank() != 2 || begin < 0 || count < 0 || begin + count > shape_[1]) {
    throw_range("column range out of bounds", begin, count, shape_);
  }
  return with_window(begin, {shape_[0], count}, row_stride_);
}

Tensor Tensor::reshape(const Shape& shape) const {
  const bool same_rows = shape.rank() > 0 && shape_.rank() > 0 && shape[0] == shape_[0];
  if (shape.num_elements() != shape_.num_elements() || (!is_contiguous() && !same_rows)) {
    throw Error(ErrorCode::kInvalidArgument, {.what = "cannot reshape",
                                              .expected = shape.to_string(),
                                              .got = shape_.to_string() + (is_contiguous() ? "" : " with strided rows")});
  }
  Tensor reshaped = *this;
  reshaped.shape_ = shape;
  reshaped.row_stride_ = is_contiguous() ? shape.row_elements() : row_stride_;
  return reshaped;
}

Tensor Tensor::at(int64_t index) const {
  const Tensor row = rows(index, 1);
  const Shape inner(shape_.extents().subspan(1));
  return row.with_window(0, inner, inner.row_elements());
}

}  // namespace foretoken
