// Element access to tensors in host memory, any dtype seen as float64. Slow and plain.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/tensor.h"

namespace foretoken {

/// Element `index` of a packed array of `dtype`, exactly.
[[nodiscard]] double load_element(const std::byte* data, DType dtype, int64_t index);
/// Stores `value`, rounded to the nearest of `dtype` (integers must be integral values in range).
void store_element(std::byte* data, DType dtype, int64_t index, double value);

/// A tensor whose address is a host pointer, indexed like in a formula: `x(t, h)` reads, `x.set(value, t, h)` writes.
/// An absent tensor may be held but not indexed.
class HostTensor {
 public:
  explicit HostTensor(const Tensor& tensor)
      : data_(reinterpret_cast<std::byte*>(tensor.address())),
        dtype_(tensor.dtype()),
        shape_(tensor.shape()),
        row_stride_(tensor.row_stride()) {}

  [[nodiscard]] int64_t dim(size_t axis) const { return shape_[axis]; }
  [[nodiscard]] explicit operator bool() const { return data_ != nullptr; }

  template <class... Index>
  [[nodiscard]] double operator()(Index... index) const {
    return load_element(data_, dtype_, offset(index...));
  }
  /// The same for integer tensors.
  template <class... Index>
  [[nodiscard]] int64_t integer(Index... index) const {
    return static_cast<int64_t>((*this)(index...));
  }
  template <class... Index>
  void set(double value, Index... index) const {
    store_element(data_, dtype_, offset(index...), value);
  }

 private:
  template <class... Rest>
  [[nodiscard]] int64_t offset(int64_t row, Rest... rest) const {
    int64_t inner = 0;
    size_t axis = 1;
    ((inner = inner * shape_[axis++] + static_cast<int64_t>(rest)), ...);
    return row * row_stride_ + inner;
  }

  std::byte* data_;
  DType dtype_;
  Shape shape_;
  int64_t row_stride_;
};

}  // namespace foretoken
