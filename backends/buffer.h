// Owner of one allocation on a device.
#pragma once

#include <memory>
#include <utility>

#include "core/tensor.h"

namespace foretoken {

/// Move-only owner. Views of it (BufferView, Tensor) must not outlive it; it must not outlive its backend.
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(std::unique_ptr<BufferHandle> handle) : handle_(std::move(handle)) {}

  [[nodiscard]] explicit operator bool() const { return handle_ != nullptr; }
  [[nodiscard]] size_t bytes() const { return handle_ == nullptr ? 0 : handle_->bytes(); }
  [[nodiscard]] BufferView view() const { return {.buffer = handle_.get(), .offset = 0, .bytes = bytes()}; }
  /// A contiguous tensor at byte `offset`. Throws InvalidArgument when it does not fit.
  [[nodiscard]] Tensor tensor(DType dtype, const Shape& shape, size_t offset = 0) const {
    return Tensor(view().slice(offset, bytes() - offset), dtype, shape);
  }

 private:
  std::unique_ptr<BufferHandle> handle_;
};

}  // namespace foretoken
