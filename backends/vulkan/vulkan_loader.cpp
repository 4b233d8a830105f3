#include "backends/vulkan/vulkan_loader.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <utility>

#include "core/error.h"

namespace foretoken::vulkan {
namespace {

std::mutex mutex;
bool has_loader = false;
bool has_functions = false;

/// The table outlives what its caller does with the library.
void keep_loaded(PFN_vkGetInstanceProcAddr loader) {
  Dl_info library{};
  if (dladdr(reinterpret_cast<void*>(loader), &library) != 0) {
    static_cast<void>(dlopen(library.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE));  // null for the program itself
  }
}

/// Functions of an instance, a device, a queue and a command buffer, of Vulkan 1.0 to 1.2, stand for all.
bool is_of_table(PFN_vkGetInstanceProcAddr loader, VkInstance instance) {
  const std::array<std::pair<const char*, PFN_vkVoidFunction>, 5> samples{{
      {"vkGetPhysicalDeviceProperties2", reinterpret_cast<PFN_vkVoidFunction>(vkGetPhysicalDeviceProperties2)},
      {"vkCreateBuffer", reinterpret_cast<PFN_vkVoidFunction>(vkCreateBuffer)},
      {"vkQueueSubmit", reinterpret_cast<PFN_vkVoidFunction>(vkQueueSubmit)},
      {"vkCmdDispatchBase", reinterpret_cast<PFN_vkVoidFunction>(vkCmdDispatchBase)},
      {"vkWaitSemaphores", reinterpret_cast<PFN_vkVoidFunction>(vkWaitSemaphores)},
  }};
  return std::ranges::all_of(samples, [&](const auto& sample) { return loader(instance, sample.first) == sample.second; });
}

}  // namespace

void load_loader() {
  const std::lock_guard lock(mutex);
  if (has_loader) return;
  if (volkInitialize() != VK_SUCCESS) {
    throw Error(ErrorCode::kUnsupported, "no Vulkan loader (libvulkan.so.1) on this machine");
  }
  has_loader = true;
}

void load_functions(PFN_vkGetInstanceProcAddr loader, VkInstance instance) {
  const std::lock_guard lock(mutex);
  if (has_functions) {
    if (is_of_table(loader, instance)) return;
    throw Error(ErrorCode::kUnsupported,
                "the Vulkan loader of this instance is not the one that this process uses already: there can be one only");
  }
  if (!has_loader || loader != vkGetInstanceProcAddr) {
    keep_loaded(loader);
    volkInitializeCustom(loader);
    has_loader = true;
  }
  volkLoadInstance(instance);
  if (vkWaitSemaphores == nullptr) throw Error(ErrorCode::kUnsupported, "the Vulkan loader has no functions of Vulkan 1.2");
  has_functions = true;
}

}  // namespace foretoken::vulkan
