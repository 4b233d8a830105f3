// A buffer of a backend: its memory, counted, or the caller's.
#pragma once

#include <atomic>
#include <optional>
#include <string_view>

#include "backends/vulkan/vulkan_device.h"

namespace foretoken::vulkan {

class VulkanBuffer final : public BufferHandle {
 public:
  /// Adds its size to `allocated`, which must outlive it. Throws OutOfMemory with the size asked for and what is free.
  VulkanBuffer(const Device& device, size_t bytes, MemoryKind kind, std::atomic<size_t>& allocated);
  /// Views memory of the caller. Throws InvalidArgument when it is not as GpuBackend::adopt_memory demands.
  VulkanBuffer(const Device& device, const NativeMemory& memory);
  /// Waits until no work of the device can use it; the caller's memory is the caller's business.
  ~VulkanBuffer() override;

  [[nodiscard]] size_t bytes() const override { return bytes_; }
  [[nodiscard]] DeviceAddress address() const override { return address_; }
  [[nodiscard]] MemoryKind kind() const override { return kind_; }
  [[nodiscard]] std::byte* host_data() const override { return memory_ ? memory_->host_data() : nullptr; }
  [[nodiscard]] NativeMemory native() const override {
    return {.handle = reinterpret_cast<uint64_t>(buffer_), .offset = offset_, .bytes = bytes_};
  }
  [[nodiscard]] VkBuffer get() const { return buffer_; }
  /// Where it begins in `get()`.
  [[nodiscard]] VkDeviceSize offset() const { return offset_; }

 private:
  const Device& device_;
  size_t bytes_;
  MemoryKind kind_;
  std::atomic<size_t>* allocated_ = nullptr;
  std::optional<Memory> memory_;  // absent: the caller's
  VkBuffer buffer_;
  VkDeviceSize offset_ = 0;
  DeviceAddress address_;
};

/// Where Vulkan finds the first byte of a view.
struct BufferPlace {
  VkBuffer buffer;
  VkDeviceSize offset;
};

/// The place of `view`. Throws InvalidArgument, with `what` in front, when it is of another backend.
[[nodiscard]] BufferPlace place_of(const BufferView& view, std::string_view what);

}  // namespace foretoken::vulkan
