// One open device: the logical device, its queue, and memory.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

#include "backends/native.h"
#include "backends/vulkan/vulkan_handles.h"
#include "backends/vulkan/vulkan_physical_device.h"
#include "core/tensor.h"

namespace foretoken::vulkan {

class Timeline;

/// Thread-safe. Outlives all that is made on it.
class Device {
 public:
  /// `instance` must outlive the device. Throws DeviceError when the driver makes no device.
  Device(const Instance& instance, PhysicalDevice physical);
  /// The device and the queue of `caller`, which must outlive this, on `physical` as it was made: see adopt_device.
  Device(PhysicalDevice physical, const VulkanDevice& caller);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  [[nodiscard]] VkDevice get() const { return device_; }
  [[nodiscard]] const PhysicalDevice& physical() const { return physical_; }
  [[nodiscard]] const DeviceLimits& limits() const { return physical_.limits; }

  /// Puts work on the queue. Throws DeviceError, OutOfMemory; `detail` names the work.
  void submit(const VkSubmitInfo& info, std::string_view detail) const;
  /// Throws DeviceError when the driver says that the device is lost.
  void check_alive(std::string_view detail) const;
  /// Throws DeviceError when a wait has seen no progress for `seconds`, and that is too long: there are drivers that never tell
  /// of a fault. The device counts as hung from then on.
  void check_progress(uint64_t seconds, std::string_view detail) const;
  /// Nothing is waited for any more.
  [[nodiscard]] bool is_hung() const { return is_hung_; }
  /// Throws InternalError with what the validation layer complains about, if our instance has one.
  void check_validation() const;
  /// Waits until nothing that was submitted uses what is about to be destroyed, without holding the queue; a failure is logged.
  void wait_idle() const noexcept;
  [[nodiscard]] Owned<VkCommandPool> make_command_pool() const;
  [[nodiscard]] VkCommandBuffer make_command_buffer(VkCommandPool pool) const;

 private:
  class QueueLock;

  const Instance* instance_ = nullptr;  // null: the device is the caller's
  PhysicalDevice physical_;
  VkDevice device_ = VK_NULL_HANDLE;
  VkQueue queue_ = VK_NULL_HANDLE;
  mutable std::mutex queue_mutex_;
  std::function<void()> lock_queue_;  // of the caller; null: nobody else uses the queue
  std::function<void()> unlock_queue_;
  uint64_t timeout_seconds_ = 0;  // of a wait without progress; 0: none
  mutable std::atomic<bool> is_hung_ = false;
  std::unique_ptr<Timeline> idle_;  // of wait_idle
  mutable uint64_t num_waits_ = 0;
};

/// Where shaders find a buffer that was made for that.
[[nodiscard]] DeviceAddress device_address(const Device& device, VkBuffer buffer);

/// One allocation with the buffer that covers it, mapped where the host reaches it. A driver may allow no more than 4,096; models
/// pack their tensors, so that a few dozen do however many layers there are.
class Memory {
 public:
  /// Throws OutOfMemory with the size asked for and what is free.
  Memory(const Device& device, size_t bytes, MemoryKind kind);
  Memory(Memory&&) noexcept = default;
  Memory& operator=(Memory&&) noexcept = default;

  [[nodiscard]] VkBuffer buffer() const { return buffer_.get(); }
  [[nodiscard]] DeviceAddress address() const { return address_; }
  [[nodiscard]] std::byte* host_data() const { return host_data_; }

 private:
  Owned<VkDeviceMemory> memory_;
  Owned<VkBuffer> buffer_;  // goes before its memory
  DeviceAddress address_ = 0;
  std::byte* host_data_ = nullptr;
};

/// A timeline semaphore and the last value that was promised.
class Timeline {
 public:
  explicit Timeline(const Device& device);

  [[nodiscard]] VkSemaphore semaphore() const { return semaphore_.get(); }
  /// Whether the work that signals `value` has finished. Throws DeviceError.
  [[nodiscard]] bool reached(uint64_t value) const;
  /// Waits for `value`. Throws DeviceError; `detail` names the work.
  void wait(uint64_t value, std::string_view detail) const;

 private:
  const Device* device_;
  Owned<VkSemaphore> semaphore_;
};

}  // namespace foretoken::vulkan
