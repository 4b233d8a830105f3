// Views of device memory: they never own. A Tensor is a BufferView with a dtype, a shape and a stride between rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/dtype.h"
#include "core/shape.h"

namespace foretoken {

/// What a kernel adds offsets to. On the CPU and on CUDA a pointer; 0 is null.
using DeviceAddress = uint64_t;

enum class MemoryKind : uint8_t {
  kDevice,      // fastest for kernels; the host reads and writes it through Stream copies only
  kHostVisible  // kernels reach it and `host_data()` is not null
};

/// Memory as the API of a device names it, whoever owns it: how a caller's memory comes in (GpuBackend::adopt_memory) and how
/// ours is found by a caller's own kernels and copies (BufferView::native).
struct NativeMemory {
  uint64_t handle = 0;  // CPU, CUDA, HIP: the pointer. Vulkan: the VkBuffer
  uint64_t offset = 0;  // bytes from the start of what `handle` names
  size_t bytes = 0;
};

/// One allocation of a backend, seen from outside. Backends derive their own.
class BufferHandle {
 public:
  BufferHandle() = default;
  BufferHandle(const BufferHandle&) = delete;
  BufferHandle& operator=(const BufferHandle&) = delete;
  virtual ~BufferHandle() = default;

  [[nodiscard]] virtual size_t bytes() const = 0;
  [[nodiscard]] virtual DeviceAddress address() const = 0;
  [[nodiscard]] virtual MemoryKind kind() const = 0;
  /// The host's pointer to the memory; null for device memory, also where host and device share it.
  [[nodiscard]] virtual std::byte* host_data() const = 0;
  /// The memory by the names of the device's own API.
  [[nodiscard]] virtual NativeMemory native() const { return {.handle = address(), .offset = 0, .bytes = bytes()}; }
};

/// Bytes [offset, offset + bytes) of a buffer. A default one is null.
struct BufferView {
  BufferHandle* buffer = nullptr;
  size_t offset = 0;
  size_t bytes = 0;

  [[nodiscard]] bool is_null() const { return buffer == nullptr; }
  [[nodiscard]] DeviceAddress address() const { return buffer == nullptr ? 0 : buffer->address() + offset; }
  /// Where these bytes lie by the names of the device's own API; nothing for a null view.
  [[nodiscard]] NativeMemory native() const;
  /// Part of this view. Throws InvalidArgument when it reaches past the end.
  [[nodiscard]] BufferView slice(size_t begin, size_t count) const;
  /// Whether the two share at least one byte.
  [[nodiscard]] bool overlaps(const BufferView& other) const;
};

/// A typed view whose rows (axis 0) may be further apart than they are long; everything inside a row is contiguous.
/// A default-constructed Tensor is absent: optional operands are passed that way.
class Tensor {
 public:
  Tensor() = default;
  /// A contiguous tensor at the start of `view`. Throws InvalidArgument when the view is too small.
  Tensor(BufferView view, DType dtype, const Shape& shape);
  /// Likewise, with rows that begin `row_stride` elements apart. Throws InvalidArgument for a stride below the elements of a row
  /// too.
  [[nodiscard]] static Tensor strided(BufferView view, DType dtype, const Shape& shape, int64_t row_stride);
  /// An absent tensor that has a dtype and a shape: for asking about an operator before its memory exists.
  [[nodiscard]] static Tensor shape_only(DType dtype, const Shape& shape);

  [[nodiscard]] bool is_absent() const { return view_.is_null(); }
  [[nodiscard]] explicit operator bool() const { return !is_absent(); }
  [[nodiscard]] DType dtype() const { return dtype_; }
  [[nodiscard]] const Shape& shape() const { return shape_; }
  [[nodiscard]] int64_t dim(size_t axis) const { return shape_[axis]; }
  /// Elements from the start of one row to the start of the next.
  [[nodiscard]] int64_t row_stride() const { return row_stride_; }
  [[nodiscard]] bool is_contiguous() const;
  [[nodiscard]] DeviceAddress address() const { return view_.address(); }
  /// The bytes from the first element to the last one (with the gaps between rows).
  [[nodiscard]] const BufferView& view() const { return view_; }
  /// Bytes of the elements themselves, without gaps.
  [[nodiscard]] size_t bytes() const;

  /// Rows [begin, begin + count) of axis 0. Throws InvalidArgument out of range.
  [[nodiscard]] Tensor rows(int64_t begin, int64_t count) const;
  /// Columns [begin, begin + count) of a 2-D tensor. Throws InvalidArgument out of range.
  [[nodiscard]] Tensor columns(int64_t begin, int64_t count) const;
  /// Another shape over the same elements. The first extent may change only when contiguous. Throws InvalidArgument.
  [[nodiscard]] Tensor reshape(const Shape& shape) const;
  /// Slice `index` of axis 0 without that axis: [A, B, C] -> [B, C].
  [[nodiscard]] Tensor at(int64_t index) const;

 private:
  [[nodiscard]] Tensor with_window(int64_t element_offset, const Shape& shape, int64_t row_stride) const;

  BufferView view_;
  DType dtype_ = DType::kF32;
  Shape shape_;
  int64_t row_stride_ = 0;
};

}  // namespace foretoken
