#include "tests/unit/vulkan/caller.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace foretoken::vulkan::test {
namespace {

constexpr const char* kLayer = "VK_LAYER_KHRONOS_validation";

void expect_success(VkResult result, const char* call) { EXPECT_EQ(result, VK_SUCCESS) << call; }

}  // namespace

Caller::Caller(CallerOptions options) {
  void* loader = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
  if (loader == nullptr) {
    absent_ = "no Vulkan loader";
    return;
  }
  get_ = reinterpret_cast<PFN_vkGetInstanceProcAddr>(dlsym(loader, "vkGetInstanceProcAddr"));
  make_instance();
  if (absent_.empty()) find_device();
  if (absent_.empty()) make_device(options);
}

Caller::~Caller() {
  if (device_ != VK_NULL_HANDLE) {
    wait_idle();
    call<PFN_vkDestroyCommandPool>("vkDestroyCommandPool")(device_, pool_, nullptr);
    call<PFN_vkDestroyDevice>("vkDestroyDevice")(device_, nullptr);
  }
  if (messenger_ != VK_NULL_HANDLE) {
    call<PFN_vkDestroyDebugUtilsMessengerEXT>("vkDestroyDebugUtilsMessengerEXT")(instance_, messenger_, nullptr);
  }
  if (instance_ != VK_NULL_HANDLE) call<PFN_vkDestroyInstance>("vkDestroyInstance")(instance_, nullptr);
  EXPECT_EQ(complaints_, std::vector<std::string>{});
}

VulkanDevice Caller::native() const {
  VulkanDevice device;
  device.get_instance_proc_addr = reinterpret_cast<void*>(get_);
  device.instance = instance_;
  device.physical_device = physical_;
  device.device = device_;
  device.queue = queue_;
  device.queue_family_index = family_;
  device.device_create_info = &info_;
  device.api_version = VK_API_VERSION_1_2;
  return device;
}

VkBool32 Caller::on_message(VkDebugUtilsMessageSeverityFlagBitsEXT, VkDebugUtilsMessageTypeFlagsEXT,
                            const VkDebugUtilsMessengerCallbackDataEXT* data, void* caller) {
  static_cast<Caller*>(caller)->complaints_.emplace_back(data->pMessage);
  return VK_FALSE;
}

void Caller::make_instance() {
  uint32_t count = 0;
  const auto layers_of = call<PFN_vkEnumerateInstanceLayerProperties>("vkEnumerateInstanceLayerProperties");
  expect_success(layers_of(&count, nullptr), "vkEnumerateInstanceLayerProperties");
  std::vector<VkLayerProperties> layers(count);
  expect_success(layers_of(&count, layers.data()), "vkEnumerateInstanceLayerProperties");
  const bool validate = std::ranges::any_of(layers, [](const auto& l) { return std::strcmp(l.layerName, kLayer) == 0; });
  VkApplicationInfo application{};
  application.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO;
  application.apiVersion = VK_API_VERSION_1_2;
  const char* extension = VK_EXT_DEBUG_UTILS_EXTENSION_NAME;
  VkInstanceCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO;
  info.pApplicationInfo = &application;
  info.enabledLayerCount = validate ? 1 : 0;
  info.ppEnabledLayerNames = &kLayer;
  info.enabledExtensionCount = validate ? 1 : 0;
  info.ppEnabledExtensionNames = &extension;
  if (call<PFN_vkCreateInstance>("vkCreateInstance")(&info, nullptr, &instance_) != VK_SUCCESS) {
    instance_ = VK_NULL_HANDLE;
    absent_ = "no Vulkan driver";
    return;
  }
  if (!validate) return;
  VkDebugUtilsMessengerCreateInfoEXT messages{};
  messages.sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT;
  messages.messageSeverity = VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT;
  messages.messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT;
  messages.pfnUserCallback = on_message;
  messages.pUserData = this;
  expect_success(
      call<PFN_vkCreateDebugUtilsMessengerEXT>("vkCreateDebugUtilsMessengerEXT")(instance_, &messages, nullptr, &messenger_),
      "vkCreateDebugUtilsMessengerEXT");
}

void Caller::find_device() {
  uint32_t count = 0;
  const auto devices_of = call<PFN_vkEnumeratePhysicalDevices>("vkEnumeratePhysicalDevices");
  expect_success(devices_of(instance_, &count, nullptr), "vkEnumeratePhysicalDevices");
  std::vector<VkPhysicalDevice> devices(count);
  expect_success(devices_of(instance_, &count, devices.data()), "vkEnumeratePhysicalDevices");
  for (VkPhysicalDevice device : devices) {
    VkPhysicalDeviceProperties properties{};
    call<PFN_vkGetPhysicalDeviceProperties>("vkGetPhysicalDeviceProperties")(device, &properties);
    const bool is_gpu = properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
    if (physical_ == VK_NULL_HANDLE || is_gpu) physical_ = device;
  }
  if (physical_ == VK_NULL_HANDLE) absent_ = "no Vulkan device";
  const auto families_of = call<PFN_vkGetPhysicalDeviceQueueFamilyProperties>("vkGetPhysicalDeviceQueueFamilyProperties");
  if (!absent_.empty()) return;
  families_of(physical_, &count, nullptr);
  std::vector<VkQueueFamilyProperties> families(count);
  families_of(physical_, &count, families.data());
  while (family_ < count && (families[family_].queueFlags & VK_QUEUE_COMPUTE_BIT) == 0) ++family_;
}

void Caller::make_device(CallerOptions options) {
  features_.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
  v11_.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES;
  v12_.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES;
  storage_16_.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES;
  storage_8_.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_8BIT_STORAGE_FEATURES;
  address_.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_BUFFER_DEVICE_ADDRESS_FEATURES;
  timeline_.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES;
  layout_.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SCALAR_BLOCK_LAYOUT_FEATURES;
  subgroup_.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES;
  features_.features.shaderInt64 = options.shader_int64 ? VK_TRUE : VK_FALSE;
  storage_16_.storageBuffer16BitAccess = v11_.storageBuffer16BitAccess = VK_TRUE;
  storage_8_.storageBuffer8BitAccess = v12_.storageBuffer8BitAccess = VK_TRUE;
  address_.bufferDeviceAddress = v12_.bufferDeviceAddress = VK_TRUE;
  layout_.scalarBlockLayout = v12_.scalarBlockLayout = VK_TRUE;
  timeline_.timelineSemaphore = v12_.timelineSemaphore = options.timeline_semaphore ? VK_TRUE : VK_FALSE;
  subgroup_.subgroupSizeControl = subgroup_.computeFullSubgroups = VK_TRUE;
  info_.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
  if (options.separate_structures) {
    info_.pEnabledFeatures = &features_.features;
    info_.pNext = &storage_16_;
    storage_16_.pNext = &storage_8_;
    storage_8_.pNext = &address_;
    address_.pNext = &timeline_;
    timeline_.pNext = &layout_;
    layout_.pNext = &subgroup_;
  } else {
    info_.pNext = &features_;
    features_.pNext = &v11_;
    v11_.pNext = &v12_;
    v12_.pNext = &subgroup_;
  }
  info_.enabledExtensionCount = 1;
  info_.ppEnabledExtensionNames = &extension_;
  queue_info_.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO;
  queue_info_.queueFamilyIndex = family_;
  queue_info_.queueCount = 1;
  queue_info_.pQueuePriorities = &priority_;
  info_.queueCreateInfoCount = 1;
  info_.pQueueCreateInfos = &queue_info_;
  if (call<PFN_vkCreateDevice>("vkCreateDevice")(physical_, &info_, nullptr, &device_) != VK_SUCCESS) {
    device_ = VK_NULL_HANDLE;
    absent_ = "no Vulkan device that has what is needed";
    return;
  }
  call<PFN_vkGetDeviceQueue>("vkGetDeviceQueue")(device_, family_, 0, &queue_);
  VkCommandPoolCreateInfo pool{};
  pool.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO;
  pool.queueFamilyIndex = family_;
  expect_success(call<PFN_vkCreateCommandPool>("vkCreateCommandPool")(device_, &pool, nullptr, &pool_), "vkCreateCommandPool");
}

Caller::Memory Caller::allocate(size_t bytes) {
  Memory made{.bytes = bytes};
  VkBufferCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO;
  info.size = bytes;
  info.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
               VK_BUFFER_USAGE_TRANSFER_DST_BIT;
  expect_success(call<PFN_vkCreateBuffer>("vkCreateBuffer")(device_, &info, nullptr, &made.buffer), "vkCreateBuffer");
  VkMemoryRequirements needs{};
  call<PFN_vkGetBufferMemoryRequirements>("vkGetBufferMemoryRequirements")(device_, made.buffer, &needs);
  VkPhysicalDeviceMemoryProperties kinds{};
  call<PFN_vkGetPhysicalDeviceMemoryProperties>("vkGetPhysicalDeviceMemoryProperties")(physical_, &kinds);
  constexpr VkMemoryPropertyFlags kHost = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  uint32_t kind = 0;
  while (kind < kinds.memoryTypeCount &&
         ((needs.memoryTypeBits >> kind & 1U) == 0 || (kinds.memoryTypes[kind].propertyFlags & kHost) != kHost)) {
    ++kind;
  }
  VkMemoryAllocateFlagsInfo flags{};
  flags.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO;
  flags.flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT;
  VkMemoryAllocateInfo allocation{};
  allocation.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO;
  allocation.pNext = &flags;
  allocation.allocationSize = needs.size;
  allocation.memoryTypeIndex = kind;
  expect_success(call<PFN_vkAllocateMemory>("vkAllocateMemory")(device_, &allocation, nullptr, &made.memory), "vkAllocateMemory");
  expect_success(call<PFN_vkBindBufferMemory>("vkBindBufferMemory")(device_, made.buffer, made.memory, 0), "vkBindBufferMemory");
  void* data = nullptr;
  expect_success(call<PFN_vkMapMemory>("vkMapMemory")(device_, made.memory, 0, VK_WHOLE_SIZE, 0, &data), "vkMapMemory");
  made.data = static_cast<float*>(data);
  return made;
}

void Caller::free(const Memory& memory) {
  wait_idle();
  call<PFN_vkDestroyBuffer>("vkDestroyBuffer")(device_, memory.buffer, nullptr);
  call<PFN_vkFreeMemory>("vkFreeMemory")(device_, memory.memory, nullptr);
}

void Caller::fill(const Memory& memory, float value) {
  submit([&](VkCommandBuffer commands) {
    call<PFN_vkCmdFillBuffer>("vkCmdFillBuffer")(commands, memory.buffer, 0, memory.bytes, std::bit_cast<uint32_t>(value));
  });
}

void Caller::copy(const NativeMemory& source, const Memory& destination) {
  submit([&](VkCommandBuffer commands) {
    const VkBufferCopy region{.srcOffset = source.offset, .dstOffset = 0, .size = source.bytes};
    call<PFN_vkCmdCopyBuffer>("vkCmdCopyBuffer")(commands, reinterpret_cast<VkBuffer>(source.handle), destination.buffer, 1,
                                                 &region);
  });
}

void Caller::submit(const std::function<void(VkCommandBuffer)>& record) {
  VkCommandBufferAllocateInfo allocate{};
  allocate.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO;
  allocate.commandPool = pool_;
  allocate.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
  allocate.commandBufferCount = 1;
  VkCommandBuffer commands = VK_NULL_HANDLE;
  expect_success(call<PFN_vkAllocateCommandBuffers>("vkAllocateCommandBuffers")(device_, &allocate, &commands),
                 "vkAllocateCommandBuffers");
  VkCommandBufferBeginInfo begin{};
  begin.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
  begin.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
  expect_success(call<PFN_vkBeginCommandBuffer>("vkBeginCommandBuffer")(commands, &begin), "vkBeginCommandBuffer");
  record(commands);
  expect_success(call<PFN_vkEndCommandBuffer>("vkEndCommandBuffer")(commands), "vkEndCommandBuffer");
  VkSubmitInfo info{};
  info.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
  info.commandBufferCount = 1;
  info.pCommandBuffers = &commands;
  expect_success(call<PFN_vkQueueSubmit>("vkQueueSubmit")(queue_, 1, &info, VK_NULL_HANDLE), "vkQueueSubmit");
}

void Caller::wait_idle() { expect_success(call<PFN_vkQueueWaitIdle>("vkQueueWaitIdle")(queue_), "vkQueueWaitIdle"); }

}  // namespace foretoken::vulkan::test
