// A device that the caller made, as one of ours.
#pragma once

#include <memory>

#include "backends/native.h"
#include "backends/vulkan/vulkan_device.h"

namespace foretoken::vulkan {

/// Works on `caller`'s device and queue and destroys neither. Throws InvalidArgument for handles that are absent or do not belong
/// together, Unsupported for a device that lacks what kernels need or was made without it (the message names it) and for one of a
/// second loader.
[[nodiscard]] std::unique_ptr<Device> adopt_device(const VulkanDevice& caller);

}  // namespace foretoken::vulkan
