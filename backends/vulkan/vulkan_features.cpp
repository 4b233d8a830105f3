#include "backends/vulkan/vulkan_features.h"

#include <utility>

namespace foretoken::vulkan {
namespace {

/// Adds what one structure of a chain says; a structure of another kind says nothing.
void add(Features& features, const VkBaseInStructure& structure) {
  const auto as = [&]<class T>(T /*kind*/) -> const T& { return reinterpret_cast<const T&>(structure); };
  switch (structure.sType) {
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2:
      features.shader_int64 |= as(VkPhysicalDeviceFeatures2{}).features.shaderInt64 != VK_FALSE;
      break;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES:
      features.storage_16_bit |= as(VkPhysicalDeviceVulkan11Features{}).storageBuffer16BitAccess != VK_FALSE;
      break;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES: {
      const auto& v12 = as(VkPhysicalDeviceVulkan12Features{});
      features.storage_8_bit |= v12.storageBuffer8BitAccess != VK_FALSE;
      features.buffer_device_address |= v12.bufferDeviceAddress != VK_FALSE;
      features.timeline_semaphore |= v12.timelineSemaphore != VK_FALSE;
      features.scalar_block_layout |= v12.scalarBlockLayout != VK_FALSE;
      break;
    }
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES: {
      const auto& v13 = as(VkPhysicalDeviceVulkan13Features{});
      features.subgroup_size_control |= v13.subgroupSizeControl != VK_FALSE;
      features.full_subgroups |= v13.computeFullSubgroups != VK_FALSE;
      break;
    }
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES:
      features.storage_16_bit |= as(VkPhysicalDevice16BitStorageFeatures{}).storageBuffer16BitAccess != VK_FALSE;
      break;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_8BIT_STORAGE_FEATURES:
      features.storage_8_bit |= as(VkPhysicalDevice8BitStorageFeatures{}).storageBuffer8BitAccess != VK_FALSE;
      break;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_BUFFER_DEVICE_ADDRESS_FEATURES:
      features.buffer_device_address |= as(VkPhysicalDeviceBufferDeviceAddressFeatures{}).bufferDeviceAddress != VK_FALSE;
      break;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES:
      features.timeline_semaphore |= as(VkPhysicalDeviceTimelineSemaphoreFeatures{}).timelineSemaphore != VK_FALSE;
      break;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SCALAR_BLOCK_LAYOUT_FEATURES:
      features.scalar_block_layout |= as(VkPhysicalDeviceScalarBlockLayoutFeatures{}).scalarBlockLayout != VK_FALSE;
      break;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES: {
      const auto& control = as(VkPhysicalDeviceSubgroupSizeControlFeatures{});
      features.subgroup_size_control |= control.subgroupSizeControl != VK_FALSE;
      features.full_subgroups |= control.computeFullSubgroups != VK_FALSE;
      break;
    }
    default: break;
  }
}

Features features_of(const void* chain) {
  Features features;
  for (const auto* structure = static_cast<const VkBaseInStructure*>(chain); structure != nullptr; structure = structure->pNext) {
    add(features, *structure);
  }
  return features;
}

}  // namespace

Features supported_features(VkPhysicalDevice device, bool has_subgroup_size_control) {
  VkPhysicalDeviceSubgroupSizeControlFeatures control{};
  control.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES;
  VkPhysicalDeviceVulkan12Features v12{};
  v12.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES;
  v12.pNext = has_subgroup_size_control ? &control : nullptr;
  VkPhysicalDeviceVulkan11Features v11{};
  v11.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES;
  v11.pNext = &v12;
  VkPhysicalDeviceFeatures2 features{};
  features.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
  features.pNext = &v11;
  vkGetPhysicalDeviceFeatures2(device, &features);
  return features_of(&features);
}

Features enabled_features(const VkDeviceCreateInfo& info) {
  Features features = features_of(info.pNext);
  if (info.pEnabledFeatures != nullptr) features.shader_int64 |= info.pEnabledFeatures->shaderInt64 != VK_FALSE;
  return features;
}

std::string missing_features(const Features& features) {
  const std::pair<const char*, bool> needed[] = {
      {"bufferDeviceAddress", features.buffer_device_address}, {"timelineSemaphore", features.timeline_semaphore},
      {"scalarBlockLayout", features.scalar_block_layout},     {"shaderInt64", features.shader_int64},
      {"storageBuffer8BitAccess", features.storage_8_bit},     {"storageBuffer16BitAccess", features.storage_16_bit},
  };
  std::string names;
  for (const auto& [name, present] : needed) {
    if (!present) names.append(names.empty() ? "" : ", ").append(name);
  }
  return names;
}

}  // namespace foretoken::vulkan
