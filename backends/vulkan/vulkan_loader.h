// Where the functions of Vulkan come from. There is one table of them in the process, filled once.
#pragma once

#include "backends/vulkan/vulkan_api.h"

namespace foretoken::vulkan {

/// Finds the machine's loader, for the functions that need no instance; one that is there already, a caller's too, will do.
/// Thread-safe. Throws Unsupported when there is none.
void load_loader();

/// Fills the table from `loader` for what belongs to `instance`, which is of Vulkan 1.2. Where it is filled, the functions must
/// be the same ones: an instance of the same loader. Thread-safe. Throws Unsupported otherwise.
void load_functions(PFN_vkGetInstanceProcAddr loader, VkInstance instance);

}  // namespace foretoken::vulkan
