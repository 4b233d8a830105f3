#include "backends/vulkan/vulkan_buffer.h"

#include <string>

#include "backends/adopted_memory.h"
#include "core/error.h"

namespace foretoken::vulkan {

VulkanBuffer::VulkanBuffer(const Device& device, size_t bytes, MemoryKind kind, std::atomic<size_t>& allocated)
    : device_(device),
      bytes_(bytes),
      kind_(kind),
      allocated_(&allocated),
      memory_(std::in_place, device, bytes, kind),
      buffer_(memory_->buffer()),
      address_(memory_->address()) {
  allocated_->fetch_add(bytes_, std::memory_order_relaxed);
}

VulkanBuffer::VulkanBuffer(const Device& device, const NativeMemory& memory)
    : device_(device),
      bytes_(memory.bytes),
      kind_(MemoryKind::kDevice),
      buffer_(reinterpret_cast<VkBuffer>(memory.handle)),
      offset_(memory.offset),
      address_(memory.offset) {
  check_adoptable(memory, memory.offset);  // before the handle is asked for anything
  VkMemoryRequirements needs{};
  vkGetBufferMemoryRequirements(device.get(), buffer_, &needs);
  if (memory.offset + memory.bytes > needs.size) {
    throw Error(ErrorCode::kInvalidArgument,
                {.what = "memory to adopt",
                 .expected = "at most " + std::to_string(needs.size) + " bytes, which the VkBuffer has",
                 .got = std::to_string(memory.offset) + " + " + std::to_string(memory.bytes)});
  }
  const DeviceAddress start = device_address(device, buffer_);
  if (start == 0) throw Error(ErrorCode::kInvalidArgument, "memory to adopt: the VkBuffer has no device address");
  address_ = start + memory.offset;
  check_adoptable(memory, address_);
}

VulkanBuffer::~VulkanBuffer() {
  if (!memory_) return;
  device_.wait_idle();
  allocated_->fetch_sub(bytes_, std::memory_order_relaxed);
}

BufferPlace place_of(const BufferView& view, std::string_view what) {
  const auto* own = dynamic_cast<const VulkanBuffer*>(view.buffer);
  if (own == nullptr) throw Error(ErrorCode::kInvalidArgument, std::string(what) + ": memory of another backend");
  return {.buffer = own->get(), .offset = own->offset() + view.offset};
}

}  // namespace foretoken::vulkan
