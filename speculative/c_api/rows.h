// Hidden states that a caller gives: checked, and brought to where the library reads them.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/tensor.h"
#include "foretoken/device.h"
#include "speculative/c_api/device.h"

namespace foretoken::c_api {

/// Checked rows: [num_rows, hidden_size], in host memory or on the device.
class HiddenRows {
 public:
  /// Throws InvalidArgument that begins with `name`: no rows, both or no memory given, a dtype other than F32 and BF16, a stride
  /// below hidden_size, memory that is misaligned or too small; InvalidHandle.
  HiddenRows(const DeviceObject& device, const foretoken_rows& rows, int64_t hidden_size, std::string_view name);

  [[nodiscard]] int64_t num_rows() const { return num_rows_; }
  [[nodiscard]] DType dtype() const { return dtype_; }
  /// Rows that lie on the device, and may be read there as they are.
  [[nodiscard]] bool is_on_device() const { return static_cast<bool>(on_device_); }
  [[nodiscard]] const Tensor& on_device() const { return on_device_; }
  /// Puts rows [first, first + count) into the first rows of `destination` [>= count, hidden_size], contiguous, of dtype().
  /// `scratch` is what rows with gaps are packed in.
  void copy_to(Stream& stream, int64_t first, int64_t count, const Tensor& destination, std::vector<std::byte>& scratch) const;

 private:
  int64_t num_rows_;
  int64_t hidden_size_;
  int64_t row_stride_;
  DType dtype_;
  const std::byte* host_ = nullptr;
  std::shared_ptr<BufferObject> buffer_;
  Tensor on_device_;
};

}  // namespace foretoken::c_api
