// A buffer of a backend: its memory, counted.
#pragma once

#include <atomic>
#include <string_view>

#include "backends/vulkan/vulkan_device.h"

namespace foretoken::vulkan {

class VulkanBuffer final : public BufferHandle {
 public:
  /// Adds its size to `allocated`, which must outlive it. Throws OutOfMemory with the size asked for and what is free.
  VulkanBuffer(const Device& device, size_t bytes, MemoryKind kind, std::atomic<size_t>& allocated);
  /// Waits until no work of the device can use it.
  ~VulkanBuffer() override;

  [[nodiscard]] size_t bytes() const override { return bytes_; }
  [[nodiscard]] DeviceAddress address() const override { return memory_.address(); }
  [[nodiscard]] MemoryKind kind() const override { return kind_; }
  [[nodiscard]] std::byte* host_data() const override { return memory_.host_data(); }
  [[nodiscard]] VkBuffer get() const { return memory_.buffer(); }

 private:
  const Device& device_;
  size_t bytes_;
  MemoryKind kind_;
  std::atomic<size_t>& allocated_;
  Memory memory_;
};

/// The buffer that `view` lies in. Throws InvalidArgument, with `what` in front, when it is of another backend.
[[nodiscard]] VkBuffer buffer_of(const BufferView& view, std::string_view what);

}  // namespace foretoken::vulkan
