// Memory of the CPU as a device.
#pragma once

#include <atomic>
#include <cstddef>

#include "core/tensor.h"

namespace foretoken::cpu {

/// Owns one allocation: 256-byte aligned, from 2 MiB on aligned to huge pages and present in memory from the start, so that no
/// page fault falls into a step.
class CpuBuffer final : public BufferHandle {
 public:
  /// Adds its size to `allocated`, which must outlive it. Throws OutOfMemory with the size asked for and what is free.
  CpuBuffer(size_t bytes, MemoryKind kind, std::atomic<size_t>& allocated);
  ~CpuBuffer() override;

  [[nodiscard]] size_t bytes() const override { return bytes_; }
  [[nodiscard]] DeviceAddress address() const override { return reinterpret_cast<DeviceAddress>(data_); }
  [[nodiscard]] MemoryKind kind() const override { return kind_; }
  [[nodiscard]] std::byte* host_data() const override { return kind_ == MemoryKind::kHostVisible ? data_ : nullptr; }

 private:
  size_t bytes_;
  MemoryKind kind_;
  std::atomic<size_t>& allocated_;
  std::byte* data_ = nullptr;
  size_t mapped_bytes_ = 0;  // 0: from the heap
};

}  // namespace foretoken::cpu
