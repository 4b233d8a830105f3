// The features of Vulkan that kernels and their compilation use.
#pragma once

#include <string>

#include "backends/vulkan/vulkan_api.h"

namespace foretoken::vulkan {

struct Features {
  bool shader_int64 = false;
  bool storage_16_bit = false;
  bool storage_8_bit = false;
  bool buffer_device_address = false;
  bool timeline_semaphore = false;
  bool scalar_block_layout = false;
  bool subgroup_size_control = false;  // not needed by every device
  bool full_subgroups = false;         // not needed
};

/// What a device of Vulkan 1.2 has; of the last two, nothing where it lacks the extension VK_EXT_subgroup_size_control.
[[nodiscard]] Features supported_features(VkPhysicalDevice device, bool has_subgroup_size_control);
/// What a device was made with.
[[nodiscard]] Features enabled_features(const VkDeviceCreateInfo& info);
/// Vulkan's names, separated by commas, of those that every kernel needs and that are not there.
[[nodiscard]] std::string missing_features(const Features& features);

}  // namespace foretoken::vulkan
