// Host memory that tensors can view: what the references and the conformance suite work on.
#pragma once

#include <memory>
#include <new>

#include "core/tensor.h"

namespace foretoken {

/// Owns `bytes` of zeroed host memory, aligned to 256 bytes. Its address is a host pointer.
class HostBuffer final : public BufferHandle {
 public:
  explicit HostBuffer(size_t bytes);

  [[nodiscard]] size_t bytes() const override { return bytes_; }
  [[nodiscard]] DeviceAddress address() const override { return reinterpret_cast<DeviceAddress>(data_.get()); }
  [[nodiscard]] MemoryKind kind() const override { return MemoryKind::kHostVisible; }
  [[nodiscard]] std::byte* host_data() const override { return data_.get(); }

 private:
  struct Free {
    void operator()(std::byte* data) const noexcept;
  };

  size_t bytes_;
  std::unique_ptr<std::byte[], Free> data_;
};

}  // namespace foretoken
