#include <algorithm>
#include <string>

#include "backends/vulkan/vulkan_device.h"
#include "backends/vulkan/vulkan_error.h"
#include "core/error.h"

namespace foretoken::vulkan {
namespace {

// An empty buffer has an address of its own too.
constexpr size_t kSmallestAllocation = 256;

[[noreturn]] void throw_out_of_memory(const Device& device, size_t bytes, MemoryKind kind, const std::string& reason) {
  const bool on_device = kind == MemoryKind::kDevice;
  const std::string memory = on_device ? "device memory" : "host memory that the device reaches";
  const std::string free_text = on_device ? ", " + std::to_string(free_device_memory(device.physical())) + " bytes are free"
                                          : ", what is free is the host's to say";
  throw Error(ErrorCode::kOutOfMemory,
              "cannot allocate " + std::to_string(bytes) + " bytes of " + memory + free_text + ": " + reason);
}

/// The first type of memory, of those in `allowed`, that has all of `flags`; -1: none.
int find_type(const VkPhysicalDeviceMemoryProperties& memory, uint32_t allowed, VkMemoryPropertyFlags flags) {
  for (uint32_t i = 0; i < memory.memoryTypeCount; ++i) {
    if ((allowed >> i & 1U) != 0 && (memory.memoryTypes[i].propertyFlags & flags) == flags) return static_cast<int>(i);
  }
  return -1;
}

/// Device memory, or memory that the host sees without flushes, cached by it if possible. Every device has both.
uint32_t choose_type(const Device& device, uint32_t allowed, MemoryKind kind) {
  constexpr VkMemoryPropertyFlags kHost = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  const VkPhysicalDeviceMemoryProperties& memory = device.physical().memory;
  int type = kind == MemoryKind::kDevice ? find_type(memory, allowed, VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT)
                                         : find_type(memory, allowed, kHost | VK_MEMORY_PROPERTY_HOST_CACHED_BIT);
  if (type < 0 && kind == MemoryKind::kHostVisible) type = find_type(memory, allowed, kHost);
  if (type < 0) throw Error(ErrorCode::kUnsupported, "the Vulkan device has no memory of the kind that buffers need");
  return static_cast<uint32_t>(type);
}

}  // namespace

DeviceAddress device_address(const Device& device, VkBuffer buffer) {
  VkBufferDeviceAddressInfo info{};
  info.sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO;
  info.buffer = buffer;
  return vkGetBufferDeviceAddress(device.get(), &info);
}

Memory::Memory(const Device& device, size_t bytes, MemoryKind kind) {
  const auto allocated = [&](VkResult result, const char* call) {
    if (result == VK_SUCCESS) return;
    if (result == VK_ERROR_OUT_OF_DEVICE_MEMORY || result == VK_ERROR_OUT_OF_HOST_MEMORY || result == VK_ERROR_TOO_MANY_OBJECTS) {
      throw_out_of_memory(device, bytes, kind, std::string(call) + " failed: " + describe(result));
    }
    check(result, call);
  };
  if (bytes > device.physical().total_memory_bytes && kind == MemoryKind::kDevice) {
    throw_out_of_memory(device, bytes, kind, "the device has " + std::to_string(device.physical().total_memory_bytes) + " bytes");
  }
  VkBufferCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO;
  info.size = std::max(bytes, kSmallestAllocation);
  info.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
               VK_BUFFER_USAGE_TRANSFER_DST_BIT;
  info.sharingMode = VK_SHARING_MODE_EXCLUSIVE;
  VkBuffer buffer = VK_NULL_HANDLE;
  allocated(vkCreateBuffer(device.get(), &info, nullptr, &buffer), "vkCreateBuffer");
  buffer_ = {device.get(), buffer};
  VkMemoryRequirements needs{};
  vkGetBufferMemoryRequirements(device.get(), buffer, &needs);

  VkMemoryAllocateFlagsInfo flags{};
  flags.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO;
  flags.flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT;
  VkMemoryAllocateInfo allocation{};
  allocation.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO;
  allocation.pNext = &flags;
  allocation.allocationSize = needs.size;
  allocation.memoryTypeIndex = choose_type(device, needs.memoryTypeBits, kind);
  VkDeviceMemory memory = VK_NULL_HANDLE;
  allocated(vkAllocateMemory(device.get(), &allocation, nullptr, &memory), "vkAllocateMemory");
  memory_ = {device.get(), memory};
  allocated(vkBindBufferMemory(device.get(), buffer, memory, 0), "vkBindBufferMemory");

  address_ = device_address(device, buffer);
  if (kind == MemoryKind::kHostVisible) {
    void* data = nullptr;
    check(vkMapMemory(device.get(), memory, 0, VK_WHOLE_SIZE, 0, &data), "vkMapMemory");
    host_data_ = static_cast<std::byte*>(data);
  }
}

}  // namespace foretoken::vulkan
