// Every call of Vulkan goes through here: a failure becomes an Error that names the call, the code and what it means.
#pragma once

#include <string>
#include <string_view>

#include "backends/vulkan/vulkan_api.h"

namespace foretoken::vulkan {

/// "VK_ERROR_DEVICE_LOST (-4)".
[[nodiscard]] std::string describe(VkResult result);

/// Throws OutOfMemory when memory of either kind ran out, DeviceError for every other failure: "CALL failed: NAME (CODE)".
/// `detail`, where given, ends the message.
void check(VkResult result, std::string_view call, std::string_view detail = {});

/// For destructors: logs a failure instead of throwing it.
void check_in_destructor(VkResult result, std::string_view call) noexcept;

}  // namespace foretoken::vulkan
