// What the devices of an instance have, and whether this backend can use them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backends/capabilities.h"
#include "backends/vulkan/float_modes.h"
#include "backends/vulkan/vulkan_instance.h"

namespace foretoken::vulkan {

/// What kernels are chosen, compiled and launched by.
struct DeviceLimits {
  uint32_t max_push_constants = 128;  // bytes
  uint32_t max_group_memory = 0;      // bytes of one work group
  uint32_t max_group_threads = 0;
  uint32_t max_grid[3] = {0, 0, 0};
  uint32_t subgroup_size = 0;  // that kernels are compiled for
  bool chooses_subgroup_size = false;
  bool full_subgroups = false;    // can be demanded
  double timestamp_period = 0.0;  // nanoseconds; 0: the queue has no clock
  uint32_t timestamp_bits = 0;
};

struct PhysicalDevice {
  VkPhysicalDevice handle = VK_NULL_HANDLE;
  VkPhysicalDeviceProperties properties{};
  VkPhysicalDeviceMemoryProperties memory{};
  std::string driver;
  DeviceLimits limits;
  uint64_t total_memory_bytes = 0;  // of the largest heap of the device
  uint32_t num_compute_units = 1;   // 1 where the driver does not say
  uint32_t queue_family = 0;
  bool has_memory_budget = false;
  bool subgroup_arithmetic = false;
  FloatModes float_modes;
  std::string missing;  // why this backend cannot use the device; empty: it can
};

/// What a device has; its queues are to be those of a family that computes, if possible one without graphics. Throws DeviceError
/// when it cannot be asked.
[[nodiscard]] PhysicalDevice ask_device(VkPhysicalDevice handle);

/// Takes another family of queues. Returns false, and changes nothing, when there is none of this index that computes.
bool use_queue_family(PhysicalDevice& device, uint32_t family);

/// All devices: discrete ones, integrated ones, others, and the CPU's last. Throws DeviceError when they cannot be asked.
[[nodiscard]] std::vector<PhysicalDevice> find_devices(const Instance& instance);

/// Of each backend.
[[nodiscard]] Capabilities device_capabilities(const PhysicalDevice& device);

/// Bytes of device memory that an allocation could get now; all of it where the driver keeps no budget.
[[nodiscard]] uint64_t free_device_memory(const PhysicalDevice& device);

}  // namespace foretoken::vulkan
