// A device and tensors on it, for tests that call operators: the CPU, or the one that FORETOKEN_TEST_BACKEND names.
#pragma once

#include <cstdlib>
#include <memory>
#include <span>
#include <vector>

#include "backends/ops.h"
#include "backends/registry.h"

namespace foretoken::test {

class TestDevice {
 public:
  TestDevice() {
    const char* selected = std::getenv("FORETOKEN_TEST_BACKEND");
    backend_ = BackendRegistry::instance().open(selected == nullptr ? "cpu" : selected, {.num_threads = 1});
    stream_ = backend_->create_stream();
  }

  [[nodiscard]] GpuBackend& backend() { return *backend_; }
  [[nodiscard]] Stream& stream() { return *stream_; }

  [[nodiscard]] Tensor tensor(DType dtype, const Shape& shape) {
    buffers_.push_back(backend_->allocate(dtype_bytes(dtype, static_cast<size_t>(shape.num_elements()))));
    return buffers_.back().tensor(dtype, shape);
  }
  template <class Value>
  [[nodiscard]] Tensor tensor(DType dtype, const Shape& shape, const std::vector<Value>& values) {
    const Tensor made = tensor(dtype, shape);
    write(made, values);
    return made;
  }
  template <class Value>
  void write(const Tensor& tensor, const std::vector<Value>& values) {
    stream_->upload(std::as_bytes(std::span(values)), tensor.view());
  }
  template <class Value>
  [[nodiscard]] std::vector<Value> read(const Tensor& tensor) {
    std::vector<Value> values(static_cast<size_t>(tensor.shape().num_elements()));
    stream_->download(tensor.view(), std::as_writable_bytes(std::span(values)));
    return values;
  }
  template <class Op>
  void run(const Op& op) {
    stream_->run([&op](CommandList& cmd) { ops::dispatch(cmd, op); });
  }

 private:
  std::unique_ptr<GpuBackend> backend_;
  std::unique_ptr<Stream> stream_;
  std::vector<Buffer> buffers_;
};

}  // namespace foretoken::test
