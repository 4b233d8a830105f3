#include "backends/vulkan/adopted_device.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backends/vulkan/vulkan_error.h"
#include "backends/vulkan/vulkan_features.h"
#include "backends/vulkan/vulkan_loader.h"
#include "core/error.h"

namespace foretoken::vulkan {
namespace {

constexpr const char* kWhat = "Vulkan device of the caller";

[[noreturn]] void refuse(std::string expected, std::string got) {
  throw Error(ErrorCode::kInvalidArgument, {.what = kWhat, .expected = std::move(expected), .got = std::move(got)});
}

/// What can be seen without asking Vulkan.
const VkDeviceCreateInfo& checked_info(const VulkanDevice& caller) {
  const std::pair<const char*, const void*> handles[] = {
      {"get_instance_proc_addr", caller.get_instance_proc_addr},
      {"instance", caller.instance},
      {"physical_device", caller.physical_device},
      {"device", caller.device},
      {"queue", caller.queue},
      {"device_create_info", caller.device_create_info},
  };
  for (const auto& [name, handle] : handles) {
    if (handle == nullptr) refuse(name, "null");
  }
  if (static_cast<bool>(caller.lock_queue) != static_cast<bool>(caller.unlock_queue)) {
    refuse("lock_queue and unlock_queue, or neither", caller.lock_queue ? "lock_queue alone" : "unlock_queue alone");
  }
  if (caller.api_version < VK_API_VERSION_1_2) {
    throw Error(ErrorCode::kUnsupported, {.what = std::string(kWhat) + ": api_version of its instance",
                                          .expected = "at least Vulkan 1.2",
                                          .got = std::to_string(VK_API_VERSION_MAJOR(caller.api_version)) + "." +
                                                 std::to_string(VK_API_VERSION_MINOR(caller.api_version))});
  }
  const auto& info = *static_cast<const VkDeviceCreateInfo*>(caller.device_create_info);
  if (info.sType != VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO) refuse("a VkDeviceCreateInfo", "a structure of another type");
  const auto queues = std::span(info.pQueueCreateInfos, info.queueCreateInfoCount);
  const auto is_of_family = [&](const auto& queue) { return queue.queueFamilyIndex == caller.queue_family_index; };
  if (std::ranges::none_of(queues, is_of_family)) {
    refuse("a queue family that the device was made with", std::to_string(caller.queue_family_index));
  }
  return info;
}

void check_belongs(VkInstance instance, VkPhysicalDevice device) {
  uint32_t count = 0;
  check(vkEnumeratePhysicalDevices(instance, &count, nullptr), "vkEnumeratePhysicalDevices");
  std::vector<VkPhysicalDevice> devices(count);
  const VkResult result = vkEnumeratePhysicalDevices(instance, &count, devices.data());
  if (result != VK_INCOMPLETE) check(result, "vkEnumeratePhysicalDevices");
  if (std::ranges::find(devices, device) == devices.end()) refuse("a physical_device of the instance", "another");
}

[[noreturn]] void throw_unusable(const PhysicalDevice& physical, const std::string& reason) {
  throw Error(ErrorCode::kUnsupported, std::string(kWhat) + " (" + physical.properties.deviceName + "): " + reason);
}

}  // namespace

std::unique_ptr<Device> adopt_device(const VulkanDevice& caller) {
  const VkDeviceCreateInfo& info = checked_info(caller);
  const auto instance = static_cast<VkInstance>(caller.instance);
  load_functions(reinterpret_cast<PFN_vkGetInstanceProcAddr>(caller.get_instance_proc_addr), instance);
  const auto handle = static_cast<VkPhysicalDevice>(caller.physical_device);
  check_belongs(instance, handle);

  PhysicalDevice physical = ask_device(handle);
  if (!physical.missing.empty()) throw_unusable(physical, physical.missing);
  if (!use_queue_family(physical, caller.queue_family_index)) {
    refuse("a queue family that computes", std::to_string(caller.queue_family_index));
  }
  const Features enabled = enabled_features(info);
  std::string missing = missing_features(enabled);
  if (physical.limits.chooses_subgroup_size && !enabled.subgroup_size_control) {
    missing.append(missing.empty() ? "" : ", ").append("subgroupSizeControl (its subgroups have several sizes)");
  }
  if (!missing.empty()) throw_unusable(physical, "it was made without " + missing);
  physical.limits.full_subgroups = physical.limits.full_subgroups && enabled.full_subgroups;
  return std::make_unique<Device>(std::move(physical), caller);
}

}  // namespace foretoken::vulkan
