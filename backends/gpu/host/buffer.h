// Memory of a device, and pinned memory of the host that the device reaches.
#pragma once

#include <atomic>
#include <cstddef>

#include "core/tensor.h"
#include "gpu_runtime.h"

namespace foretoken::FORETOKEN_GPU_NAMESPACE {

/// Owns one allocation, aligned to 256 bytes at least.
class RuntimeBuffer final : public BufferHandle {
 public:
  /// Adds its size to `allocated`, which must outlive it. Throws OutOfMemory with the size asked for and what is free.
  RuntimeBuffer(int device, size_t bytes, MemoryKind kind, std::atomic<size_t>& allocated);
  ~RuntimeBuffer() override;

  [[nodiscard]] size_t bytes() const override { return bytes_; }
  [[nodiscard]] DeviceAddress address() const override { return reinterpret_cast<DeviceAddress>(data_); }
  [[nodiscard]] MemoryKind kind() const override { return kind_; }
  [[nodiscard]] std::byte* host_data() const override {
    return kind_ == MemoryKind::kHostVisible ? static_cast<std::byte*>(data_) : nullptr;
  }

 private:
  int device_;
  size_t bytes_;
  MemoryKind kind_;
  std::atomic<size_t>& allocated_;
  void* data_ = nullptr;
};

}  // namespace foretoken::FORETOKEN_GPU_NAMESPACE
