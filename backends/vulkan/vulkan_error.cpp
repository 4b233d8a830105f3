#include "backends/vulkan/vulkan_error.h"

#include "core/error.h"
#include "core/log.h"

namespace foretoken::vulkan {
namespace {

std::string_view name_of(VkResult result) {
  switch (result) {
    case VK_SUCCESS: return "VK_SUCCESS";
    case VK_NOT_READY: return "VK_NOT_READY";
    case VK_TIMEOUT: return "VK_TIMEOUT";
    case VK_INCOMPLETE: return "VK_INCOMPLETE";
    case VK_ERROR_OUT_OF_HOST_MEMORY: return "VK_ERROR_OUT_OF_HOST_MEMORY";
    case VK_ERROR_OUT_OF_DEVICE_MEMORY: return "VK_ERROR_OUT_OF_DEVICE_MEMORY";
    case VK_ERROR_INITIALIZATION_FAILED: return "VK_ERROR_INITIALIZATION_FAILED";
    case VK_ERROR_DEVICE_LOST: return "VK_ERROR_DEVICE_LOST";
    case VK_ERROR_MEMORY_MAP_FAILED: return "VK_ERROR_MEMORY_MAP_FAILED";
    case VK_ERROR_LAYER_NOT_PRESENT: return "VK_ERROR_LAYER_NOT_PRESENT";
    case VK_ERROR_EXTENSION_NOT_PRESENT: return "VK_ERROR_EXTENSION_NOT_PRESENT";
    case VK_ERROR_FEATURE_NOT_PRESENT: return "VK_ERROR_FEATURE_NOT_PRESENT";
    case VK_ERROR_INCOMPATIBLE_DRIVER: return "VK_ERROR_INCOMPATIBLE_DRIVER";
    case VK_ERROR_TOO_MANY_OBJECTS: return "VK_ERROR_TOO_MANY_OBJECTS";
    case VK_ERROR_FRAGMENTED_POOL: return "VK_ERROR_FRAGMENTED_POOL";
    case VK_ERROR_OUT_OF_POOL_MEMORY: return "VK_ERROR_OUT_OF_POOL_MEMORY";
    case VK_ERROR_UNKNOWN: return "VK_ERROR_UNKNOWN";
    default: return "VkResult";
  }
}

bool is_out_of_memory(VkResult result) {
  return result == VK_ERROR_OUT_OF_HOST_MEMORY || result == VK_ERROR_OUT_OF_DEVICE_MEMORY;
}

std::string message_of(VkResult result, std::string_view call) { return std::string(call) + " failed: " + describe(result); }

}  // namespace

std::string describe(VkResult result) {
  return std::string(name_of(result)) + " (" + std::to_string(static_cast<int>(result)) + ")";
}

void check(VkResult result, std::string_view call, std::string_view detail) {
  if (result == VK_SUCCESS) return;
  throw Error(is_out_of_memory(result) ? ErrorCode::kOutOfMemory : ErrorCode::kDeviceError,
              message_of(result, call) + (detail.empty() ? "" : "; " + std::string(detail)));
}

void check_in_destructor(VkResult result, std::string_view call) noexcept {
  if (result == VK_SUCCESS) return;
  try {
    log().warn("{}", message_of(result, call));
  } catch (...) {  // NOLINT(bugprone-empty-catch): a log that cannot be written must not end the process
  }
}

}  // namespace foretoken::vulkan
