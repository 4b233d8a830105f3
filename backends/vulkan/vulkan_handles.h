// Owners of the handles of a device. Move-only; what they hold must not be in use any more when they go.
#pragma once

#include <utility>

#include "backends/vulkan/vulkan_api.h"

namespace foretoken::vulkan {

inline void destroy(VkDevice device, VkBuffer handle) { vkDestroyBuffer(device, handle, nullptr); }
inline void destroy(VkDevice device, VkDeviceMemory handle) { vkFreeMemory(device, handle, nullptr); }
inline void destroy(VkDevice device, VkSemaphore handle) { vkDestroySemaphore(device, handle, nullptr); }
inline void destroy(VkDevice device, VkCommandPool handle) { vkDestroyCommandPool(device, handle, nullptr); }
inline void destroy(VkDevice device, VkQueryPool handle) { vkDestroyQueryPool(device, handle, nullptr); }
inline void destroy(VkDevice device, VkPipeline handle) { vkDestroyPipeline(device, handle, nullptr); }
inline void destroy(VkDevice device, VkPipelineLayout handle) { vkDestroyPipelineLayout(device, handle, nullptr); }
inline void destroy(VkDevice device, VkPipelineCache handle) { vkDestroyPipelineCache(device, handle, nullptr); }
inline void destroy(VkDevice device, VkShaderModule handle) { vkDestroyShaderModule(device, handle, nullptr); }

template <class Handle>
class Owned {
 public:
  Owned() = default;
  Owned(VkDevice device, Handle handle) : device_(device), handle_(handle) {}
  Owned(Owned&& other) noexcept : device_(other.device_), handle_(std::exchange(other.handle_, VK_NULL_HANDLE)) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Owned() {
    if (handle_ != VK_NULL_HANDLE) destroy(device_, handle_);
  }

  [[nodiscard]] Handle get() const { return handle_; }
  [[nodiscard]] explicit operator bool() const { return handle_ != VK_NULL_HANDLE; }

 private:
  VkDevice device_ = VK_NULL_HANDLE;
  Handle handle_ = VK_NULL_HANDLE;
};

}  // namespace foretoken::vulkan
