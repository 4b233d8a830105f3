#include "tests/unit/golden_operators/executor.h"

#include <cmath>
#include <cstdlib>
#include <cstring>

#include "backends/cpu/reference/host_buffer.h"
#include "backends/cpu/reference/host_tensor.h"
#include "backends/registry.h"

namespace foretoken {

Executor::Executor(const std::string& kind) {
  if (kind == "reference") return;
  setenv("FORETOKEN_CPU_ISA", kind.c_str(), 1);
  backend_ = BackendRegistry::instance().open("cpu", {.num_threads = 2});
  stream_ = backend_->create_stream();
}

Tensor Executor::upload(DType dtype, const Shape& shape, std::span<const std::byte> bytes) {
  buffers_.push_back(backend_ == nullptr ? Buffer(std::make_unique<HostBuffer>(bytes.size())) : backend_->allocate(bytes.size()));
  const BufferView view = buffers_.back().view();
  if (backend_ == nullptr) {
    std::memcpy(view.buffer->host_data(), bytes.data(), bytes.size());
  } else {
    stream_->upload(bytes, view);
  }
  return buffers_.back().tensor(dtype, shape);
}

Tensor Executor::make(DType dtype, const Shape& shape, std::span<const float> values) {
  std::vector<std::byte> bytes(dtype_bytes(dtype, values.size()));
  for (size_t i = 0; i < values.size(); ++i) store_element(bytes.data(), dtype, static_cast<int64_t>(i), values[i]);
  return upload(dtype, shape, bytes);
}

Tensor Executor::make(DType dtype, const Shape& shape) {
  return upload(dtype, shape,
                std::vector<std::byte>(dtype_bytes(dtype, static_cast<size_t>(shape.num_elements())), std::byte{0xff}));
}

Tensor Executor::integers(const std::vector<int32_t>& values) {
  return upload(DType::kI32, {static_cast<int64_t>(values.size())}, std::as_bytes(std::span(values)));
}

std::vector<float> Executor::read(const Tensor& tensor) {
  std::vector<std::byte> bytes(tensor.view().bytes);
  if (backend_ == nullptr) {
    std::memcpy(bytes.data(), reinterpret_cast<const std::byte*>(tensor.address()), bytes.size());
  } else {
    stream_->download(tensor.view(), bytes);
  }
  std::vector<float> values;
  for (int64_t i = 0; i < tensor.shape().num_elements(); ++i) {
    values.push_back(static_cast<float>(load_element(bytes.data(), tensor.dtype(), i)));
  }
  return values;
}

}  // namespace foretoken
