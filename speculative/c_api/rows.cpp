#include "speculative/c_api/rows.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>

#include "speculative/c_api/boundary.h"

namespace foretoken::c_api {
namespace {

/// Kernels read device memory in vectors of this size.
constexpr uint64_t kRowAlignment = 16;

}  // namespace

HiddenRows::HiddenRows(const DeviceObject& device, const foretoken_rows& rows, int64_t hidden_size, std::string_view name)
    : num_rows_(rows.num_rows), hidden_size_(hidden_size), row_stride_(rows.row_stride == 0 ? hidden_size : rows.row_stride) {
  const std::string where(name);
  require_range(where + ".num_rows", num_rows_, 1, std::numeric_limits<int32_t>::max());
  require_range(where + ".row_stride", row_stride_, hidden_size, int64_t{1} << 40);
  dtype_ = dtype_of(rows.dtype, where + ".dtype");
  if (dtype_ != DType::kF32 && dtype_ != DType::kBF16) fail_argument(where + ".dtype", "F32 or BF16", to_string(dtype_));
  if ((rows.host == nullptr) == (rows.buffer == nullptr)) {
    fail_argument(where, "host memory or a buffer", rows.host == nullptr ? "neither" : "both");
  }
  if (rows.host != nullptr) {
    host_ = static_cast<const std::byte*>(rows.host) + rows.offset;
    return;
  }
  buffer_ = buffer_on(device, rows.buffer, where + ".buffer");
  const BufferView view =
      buffer_->slice(where, rows.offset, buffer_->view().bytes - std::min(rows.offset, buffer_->view().bytes));
  if (view.address() % kRowAlignment != 0 || dtype_bytes(dtype_, static_cast<size_t>(row_stride_)) % kRowAlignment != 0) {
    fail_argument(where, "rows that begin at multiples of 16 bytes",
                  "address " + std::to_string(view.address()) + ", stride " + std::to_string(row_stride_));
  }
  on_device_ = with_error_context(where, [&] { return Tensor::strided(view, dtype_, {num_rows_, hidden_size_}, row_stride_); });
}

void HiddenRows::copy_to(Stream& stream, int64_t first, int64_t count, const Tensor& destination,
                         std::vector<std::byte>& scratch) const {
  const Tensor to = destination.rows(0, count);
  if (on_device_) {
    const Tensor from = on_device_.rows(first, count);
    if (from.is_contiguous()) return stream.copy(from.view(), to.view());
    for (int64_t row = 0; row < count; ++row) stream.copy(from.rows(row, 1).view(), to.rows(row, 1).view());
    return;
  }
  const size_t row_bytes = dtype_bytes(dtype_, static_cast<size_t>(hidden_size_));
  const size_t stride_bytes = dtype_bytes(dtype_, static_cast<size_t>(row_stride_));
  const std::byte* from = host_ + static_cast<size_t>(first) * stride_bytes;
  if (stride_bytes == row_bytes) return stream.upload({from, static_cast<size_t>(count) * row_bytes}, to.view());
  scratch.resize(static_cast<size_t>(count) * row_bytes);
  for (size_t row = 0; row < static_cast<size_t>(count); ++row) {
    std::memcpy(scratch.data() + row * row_bytes, from + row * stride_bytes, row_bytes);
  }
  stream.upload(scratch, to.view());
}

}  // namespace foretoken::c_api
