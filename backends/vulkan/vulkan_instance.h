// The Vulkan loader and its instance.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backends/vulkan/vulkan_api.h"

namespace foretoken::vulkan {

/// Finds the loader and makes an instance. With FORETOKEN_VULKAN_VALIDATION=1 the validation layer watches every call, and an
/// error of it is thrown by the next wait (check_validation).
class Instance {
 public:
  /// Throws Unsupported with the reason when there is no loader, no driver, no Vulkan 1.2, or no validation layer though asked
  /// for.
  Instance();
  ~Instance();
  /// The one that providers share. It is made at the first call and stays for good, because drivers may be unloaded before the
  /// objects of this process go. Throws as the constructor does.
  [[nodiscard]] static const Instance& of_process();
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  [[nodiscard]] std::vector<VkPhysicalDevice> physical_devices() const;
  /// Throws InternalError with the first complaint of the validation layer since the last call, if there is one.
  void check_validation() const;
  /// Keeps a complaint; called by the layer on any thread.
  void complain(const char* message) const noexcept;

 private:
  void make_messenger();

  struct Destroy {
    void operator()(VkInstance instance) const noexcept { vkDestroyInstance(instance, nullptr); }
  };

  std::unique_ptr<VkInstance_T, Destroy> instance_;
  VkDebugUtilsMessengerEXT messenger_ = VK_NULL_HANDLE;
  mutable std::mutex mutex_;
  mutable std::string complaint_;
};

}  // namespace foretoken::vulkan
