// What an engine that owns its device brings along: see GpuBackend::adopt_memory and adopt_stream, and BackendOptions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace foretoken {

/// What memory of a caller must be aligned to, in bytes: kernels read as many at a time.
inline constexpr size_t kNativeAlignment = 16;

/// A Vulkan device that the caller made, as handles of Vulkan's API: a backend opened on it (BackendOptions) makes no instance
/// and no device of its own, submits to this queue only, and destroys none of these, which must outlive it. The device must have
/// been made with
///   Vulkan 1.2 (instance and device);
///   the features shaderInt64, storageBuffer16BitAccess, storageBuffer8BitAccess, bufferDeviceAddress, timelineSemaphore and
///   scalarBlockLayout;
///   subgroupSizeControl where the device has subgroups of several sizes; computeFullSubgroups is used where it is there.
/// The queue belongs to its user of the moment: our calls submit while they run and at no other time. A caller that uses it on
/// another thread meanwhile passes `lock_queue` and `unlock_queue`. Work of ours runs behind all that was submitted to the queue
/// before and sees what it wrote; what is submitted after a call of ours runs behind that call's work and sees what that wrote.
struct VulkanDevice {
  void* get_instance_proc_addr = nullptr;  // PFN_vkGetInstanceProcAddr of the loader that made the instance
  void* instance = nullptr;                // VkInstance
  void* physical_device = nullptr;         // VkPhysicalDevice
  void* device = nullptr;                  // VkDevice
  void* queue = nullptr;                   // VkQueue, which computes
  uint32_t queue_family_index = 0;         // of the queue
  /// The VkDeviceCreateInfo that the device was made with, as it was passed: what is enabled is read from it (pEnabledFeatures,
  /// the structures of features in pNext, the names of extensions). Read while the device is opened, not later.
  const void* device_create_info = nullptr;
  uint32_t api_version = 0;          // VkApplicationInfo::apiVersion of the instance
  std::function<void()> lock_queue;  // both or neither; must not throw
  std::function<void()> unlock_queue;
};

}  // namespace foretoken
