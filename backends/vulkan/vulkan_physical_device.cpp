#include "backends/vulkan/vulkan_physical_device.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "backends/vulkan/vulkan_error.h"
#include "backends/vulkan/vulkan_features.h"

namespace foretoken::vulkan {
namespace {

constexpr uint32_t kPreferredSubgroup = 32;  // the lanes of a logical warp, see shaders/device.glsl
constexpr uint32_t kSmallestSubgroup = 8;    // what attention and the delta rule add up by shuffles alone

std::vector<VkQueueFamilyProperties> queue_families(VkPhysicalDevice device) {
  uint32_t count = 0;
  vkGetPhysicalDeviceQueueFamilyProperties(device, &count, nullptr);
  std::vector<VkQueueFamilyProperties> families(count);
  vkGetPhysicalDeviceQueueFamilyProperties(device, &count, families.data());
  return families;
}

/// A family that computes, if possible one without graphics; -1: none.
int compute_family(VkPhysicalDevice device) {
  const std::vector<VkQueueFamilyProperties> families = queue_families(device);
  int best = -1;
  for (uint32_t i = 0; i < families.size(); ++i) {
    const VkQueueFlags flags = families[i].queueFlags;
    if ((flags & VK_QUEUE_COMPUTE_BIT) == 0) continue;
    if (best < 0 || (flags & VK_QUEUE_GRAPHICS_BIT) == 0) {
      best = static_cast<int>(i);
      if ((flags & VK_QUEUE_GRAPHICS_BIT) == 0) break;
    }
  }
  return best;
}

bool has_extension(VkPhysicalDevice device, const char* name) {
  uint32_t count = 0;
  check(vkEnumerateDeviceExtensionProperties(device, nullptr, &count, nullptr), "vkEnumerateDeviceExtensionProperties");
  std::vector<VkExtensionProperties> extensions(count);
  check(vkEnumerateDeviceExtensionProperties(device, nullptr, &count, extensions.data()), "vkEnumerateDeviceExtensionProperties");
  return std::ranges::any_of(extensions, [&](const auto& extension) { return std::strcmp(extension.extensionName, name) == 0; });
}

/// The subgroup size of kernels: 32 where it can be chosen, else the device's own.
void choose_subgroup(VkPhysicalDevice device, uint32_t own_size, const Features& features, DeviceLimits& limits) {
  limits.subgroup_size = own_size;
  limits.full_subgroups = features.full_subgroups;
  if (!features.subgroup_size_control) return;
  VkPhysicalDeviceSubgroupSizeControlProperties sizes{};
  sizes.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES;
  VkPhysicalDeviceProperties2 properties{};
  properties.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
  properties.pNext = &sizes;
  vkGetPhysicalDeviceProperties2(device, &properties);
  limits.chooses_subgroup_size =
      sizes.minSubgroupSize < sizes.maxSubgroupSize && (sizes.requiredSubgroupSizeStages & VK_SHADER_STAGE_COMPUTE_BIT) != 0;
  if (limits.chooses_subgroup_size) {
    limits.subgroup_size = std::clamp(kPreferredSubgroup, sizes.minSubgroupSize, sizes.maxSubgroupSize);
  }
}

DeviceKind kind_of(VkPhysicalDeviceType type) {
  switch (type) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU: return DeviceKind::kDiscreteGpu;
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU: return DeviceKind::kIntegratedGpu;
    case VK_PHYSICAL_DEVICE_TYPE_CPU: return DeviceKind::kCpu;
    default: return DeviceKind::kOther;
  }
}

uint64_t largest_device_heap(const VkPhysicalDeviceMemoryProperties& memory) {
  uint64_t bytes = 0;
  for (const VkMemoryHeap& heap : std::span(memory.memoryHeaps).first(memory.memoryHeapCount)) {
    if ((heap.flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) != 0) bytes = std::max<uint64_t>(bytes, heap.size);
  }
  return bytes;
}

/// As the extensions of the vendors say it.
uint32_t num_compute_units(VkPhysicalDevice device) {
  VkPhysicalDeviceShaderSMBuiltinsPropertiesNV multiprocessors{};
  multiprocessors.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_SM_BUILTINS_PROPERTIES_NV;
  VkPhysicalDeviceShaderCorePropertiesAMD cores{};
  cores.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_CORE_PROPERTIES_AMD;
  VkPhysicalDeviceProperties2 properties{};
  properties.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
  if (has_extension(device, VK_NV_SHADER_SM_BUILTINS_EXTENSION_NAME)) {
    properties.pNext = &multiprocessors;
    vkGetPhysicalDeviceProperties2(device, &properties);
    return std::max(multiprocessors.shaderSMCount, 1U);
  }
  if (has_extension(device, VK_AMD_SHADER_CORE_PROPERTIES_EXTENSION_NAME)) {
    properties.pNext = &cores;
    vkGetPhysicalDeviceProperties2(device, &properties);
    return std::max(cores.shaderEngineCount * cores.shaderArraysPerEngineCount * cores.computeUnitsPerShaderArray, 1U);
  }
  return 1;
}

int rank(const PhysicalDevice& device) {
  switch (kind_of(device.properties.deviceType)) {
    case DeviceKind::kDiscreteGpu: return 0;
    case DeviceKind::kIntegratedGpu: return 1;
    case DeviceKind::kOther: return 2;
    case DeviceKind::kCpu: return 3;
  }
  return 3;
}

std::vector<WeightFormatSupport> weight_formats(const PhysicalDevice& device) {
  const Availability yes = Availability::yes();
  const Availability by_integers = Availability::no("Vulkan has no such numbers: they are decoded by integer arithmetic");
  const Availability nvfp4 = device.subgroup_arithmetic ? yes : Availability::no("the device has no subgroup arithmetic");
  return {
      {.format = WeightFormat::kF32, .storable = yes, .fast = Availability::no("twice the bytes of BF16"), .native = yes},
      {.format = WeightFormat::kBF16, .storable = yes, .fast = yes, .native = by_integers},
      {.format = WeightFormat::kFp8Row, .storable = yes, .fast = yes, .native = by_integers},
      {.format = WeightFormat::kFp8Block, .storable = yes, .fast = yes, .native = by_integers},
      {.format = WeightFormat::kNvfp4, .storable = nvfp4, .fast = nvfp4, .native = by_integers},
  };
}

}  // namespace

PhysicalDevice ask_device(VkPhysicalDevice handle) {
  PhysicalDevice device;
  device.handle = handle;
  vkGetPhysicalDeviceProperties(handle, &device.properties);
  vkGetPhysicalDeviceMemoryProperties(handle, &device.memory);
  device.total_memory_bytes = largest_device_heap(device.memory);
  const uint32_t version = device.properties.apiVersion;
  if (version < VK_API_VERSION_1_2) {
    device.missing = "Vulkan " + std::to_string(VK_API_VERSION_MAJOR(version)) + "." +
                     std::to_string(VK_API_VERSION_MINOR(version)) + ", Vulkan 1.2 is needed";
    return device;
  }
  VkPhysicalDeviceSubgroupProperties subgroup{};
  subgroup.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES;
  VkPhysicalDeviceFloatControlsProperties floats{};
  floats.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FLOAT_CONTROLS_PROPERTIES;
  floats.pNext = &subgroup;
  VkPhysicalDeviceDriverProperties driver{};
  driver.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES;
  driver.pNext = &floats;
  VkPhysicalDeviceProperties2 properties{};
  properties.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
  properties.pNext = &driver;
  vkGetPhysicalDeviceProperties2(handle, &properties);
  device.driver = std::string(driver.driverName) + " " + driver.driverInfo;

  const VkPhysicalDeviceLimits& limits = device.properties.limits;
  device.limits.max_push_constants = limits.maxPushConstantsSize;
  device.limits.max_group_memory = limits.maxComputeSharedMemorySize;
  device.limits.max_group_threads = std::min(limits.maxComputeWorkGroupInvocations, limits.maxComputeWorkGroupSize[0]);
  std::copy_n(limits.maxComputeWorkGroupCount, 3, device.limits.max_grid);
  const Features features = supported_features(handle, has_extension(handle, VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME));
  choose_subgroup(handle, subgroup.subgroupSize, features, device.limits);
  device.num_compute_units = num_compute_units(handle);
  device.has_memory_budget = has_extension(handle, VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
  device.float_modes = {.keeps_subnormals = floats.shaderDenormPreserveFloat32 != VK_FALSE,
                        .keeps_nan = floats.shaderSignedZeroInfNanPreserveFloat32 != VK_FALSE};
  device.subgroup_arithmetic = (subgroup.supportedOperations & VK_SUBGROUP_FEATURE_ARITHMETIC_BIT) != 0;

  const std::string missing = missing_features(features);
  const int family = compute_family(handle);
  constexpr VkSubgroupFeatureFlags kSubgroupNeeds = VK_SUBGROUP_FEATURE_BASIC_BIT | VK_SUBGROUP_FEATURE_SHUFFLE_BIT;
  if (!missing.empty()) {
    device.missing = "no " + missing;
  } else if (family < 0) {
    device.missing = "no queue that computes";
  } else if ((subgroup.supportedStages & VK_SHADER_STAGE_COMPUTE_BIT) == 0 ||
             (subgroup.supportedOperations & kSubgroupNeeds) != kSubgroupNeeds) {
    device.missing = "no subgroup shuffles in compute shaders";
  } else if (device.limits.subgroup_size < kSmallestSubgroup) {
    device.missing = "subgroups of " + std::to_string(device.limits.subgroup_size) + ", at least " +
                     std::to_string(kSmallestSubgroup) + " are needed";
  } else {
    use_queue_family(device, static_cast<uint32_t>(family));
  }
  return device;
}

bool use_queue_family(PhysicalDevice& device, uint32_t family) {
  const std::vector<VkQueueFamilyProperties> families = queue_families(device.handle);
  if (family >= families.size() || (families[family].queueFlags & VK_QUEUE_COMPUTE_BIT) == 0) return false;
  device.queue_family = family;
  device.limits.timestamp_bits = families[family].timestampValidBits;
  device.limits.timestamp_period = device.limits.timestamp_bits > 0 ? double{device.properties.limits.timestampPeriod} : 0.0;
  return true;
}

std::vector<PhysicalDevice> find_devices(const Instance& instance) {
  std::vector<PhysicalDevice> devices;
  for (VkPhysicalDevice handle : instance.physical_devices()) devices.push_back(ask_device(handle));
  std::ranges::stable_sort(devices, {}, rank);
  return devices;
}

Capabilities device_capabilities(const PhysicalDevice& device) {
  Capabilities caps;
  caps.backend = "vulkan";
  caps.device_name = device.properties.deviceName;
  caps.driver = device.driver;
  const uint32_t version = device.properties.apiVersion;
  caps.instruction_set =
      "vulkan " + std::to_string(VK_API_VERSION_MAJOR(version)) + "." + std::to_string(VK_API_VERSION_MINOR(version));
  caps.kind = kind_of(device.properties.deviceType);
  caps.total_memory_bytes = device.total_memory_bytes;
  caps.num_compute_units = device.num_compute_units;
  caps.max_group_memory = device.limits.max_group_memory;
  caps.subgroup_sizes = {device.limits.subgroup_size};
  caps.activation_dtypes = {DType::kBF16, DType::kF32};
  caps.weight_formats = weight_formats(device);
  caps.bf16_prefill = Availability::no("no kernels for matrix hardware in this backend");
  caps.features.push_back("push constants of " + std::to_string(device.limits.max_push_constants) + " bytes");
  if (device.has_memory_budget) caps.features.emplace_back("memory budget");
  return caps;
}

uint64_t free_device_memory(const PhysicalDevice& device) {
  VkPhysicalDeviceMemoryBudgetPropertiesEXT budget{};
  budget.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT;
  VkPhysicalDeviceMemoryProperties2 properties{};
  properties.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2;
  properties.pNext = device.has_memory_budget ? &budget : nullptr;
  vkGetPhysicalDeviceMemoryProperties2(device.handle, &properties);
  uint64_t free_bytes = 0;
  for (uint32_t i = 0; i < properties.memoryProperties.memoryHeapCount; ++i) {
    const VkMemoryHeap& heap = properties.memoryProperties.memoryHeaps[i];
    if ((heap.flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) == 0) continue;
    const uint64_t used = device.has_memory_budget ? budget.heapUsage[i] : 0;
    const uint64_t limit = device.has_memory_budget ? budget.heapBudget[i] : heap.size;
    free_bytes = std::max(free_bytes, limit > used ? limit - used : 0);
  }
  return free_bytes;
}

}  // namespace foretoken::vulkan
