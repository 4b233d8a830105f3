// An engine that uses Vulkan itself: its own loader, instance, device and queue, watched by the validation layer where there is
// one.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "backends/native.h"
#include "backends/vulkan/vulkan_api.h"
#include "core/tensor.h"

namespace foretoken::vulkan::test {

/// Which of the needed features the device is made without.
struct CallerOptions {
  bool timeline_semaphore = true;
  bool shader_int64 = true;
  bool separate_structures = false;  // one structure for each feature, and pEnabledFeatures
};

class Caller {
 public:
  explicit Caller(CallerOptions options = {});
  ~Caller();
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;

  /// Why there is none on this machine; empty: there is one.
  [[nodiscard]] const std::string& absent() const { return absent_; }
  /// What a backend is opened with.
  [[nodiscard]] VulkanDevice native() const;
  /// What the validation layer said.
  [[nodiscard]] const std::vector<std::string>& complaints() const { return complaints_; }

  /// Memory that the host sees too.
  struct Memory {
    VkBuffer buffer = VK_NULL_HANDLE;
    VkDeviceMemory memory = VK_NULL_HANDLE;
    float* data = nullptr;
    size_t bytes = 0;

    [[nodiscard]] NativeMemory native() const {
      return {.handle = reinterpret_cast<uint64_t>(buffer), .offset = 0, .bytes = bytes};
    }
  };
  [[nodiscard]] Memory allocate(size_t bytes);
  void free(const Memory& memory);

  /// Submits a fill with `value`, or a copy, without barriers and without waiting.
  void fill(const Memory& memory, float value);
  void copy(const NativeMemory& source, const Memory& destination);
  void wait_idle();

 private:
  template <class Function>
  [[nodiscard]] Function call(const char* name) const {
    return reinterpret_cast<Function>(get_(instance_, name));
  }
  void make_instance();
  void find_device();
  void make_device(CallerOptions options);
  void submit(const std::function<void(VkCommandBuffer)>& record);

  static VKAPI_ATTR VkBool32 VKAPI_CALL on_message(VkDebugUtilsMessageSeverityFlagBitsEXT, VkDebugUtilsMessageTypeFlagsEXT,
                                                   const VkDebugUtilsMessengerCallbackDataEXT* data, void* caller);

  std::string absent_;
  std::vector<std::string> complaints_;
  PFN_vkGetInstanceProcAddr get_ = nullptr;
  VkInstance instance_ = VK_NULL_HANDLE;
  VkDebugUtilsMessengerEXT messenger_ = VK_NULL_HANDLE;
  VkPhysicalDevice physical_ = VK_NULL_HANDLE;
  uint32_t family_ = 0;
  VkDevice device_ = VK_NULL_HANDLE;
  VkQueue queue_ = VK_NULL_HANDLE;
  VkCommandPool pool_ = VK_NULL_HANDLE;
  // What the device is made with.
  VkPhysicalDeviceFeatures2 features_{};
  VkPhysicalDeviceVulkan11Features v11_{};
  VkPhysicalDeviceVulkan12Features v12_{};
  VkPhysicalDevice16BitStorageFeatures storage_16_{};
  VkPhysicalDevice8BitStorageFeatures storage_8_{};
  VkPhysicalDeviceBufferDeviceAddressFeatures address_{};
  VkPhysicalDeviceTimelineSemaphoreFeatures timeline_{};
  VkPhysicalDeviceScalarBlockLayoutFeatures layout_{};
  VkPhysicalDeviceSubgroupSizeControlFeatures subgroup_{};
  const char* extension_ = VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME;
  float priority_ = 1.0F;
  VkDeviceQueueCreateInfo queue_info_{};
  VkDeviceCreateInfo info_{};
};

}  // namespace foretoken::vulkan::test
