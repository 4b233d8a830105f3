#include "backends/vulkan/vulkan_buffer.h"

#include <string>

#include "core/error.h"

namespace foretoken::vulkan {

VulkanBuffer::VulkanBuffer(const Device& device, size_t bytes, MemoryKind kind, std::atomic<size_t>& allocated)
    : device_(device), bytes_(bytes), kind_(kind), allocated_(allocated), memory_(device, bytes, kind) {
  allocated_.fetch_add(bytes_, std::memory_order_relaxed);
}

VulkanBuffer::~VulkanBuffer() {
  device_.wait_idle();
  allocated_.fetch_sub(bytes_, std::memory_order_relaxed);
}

VkBuffer buffer_of(const BufferView& view, std::string_view what) {
  const auto* own = dynamic_cast<const VulkanBuffer*>(view.buffer);
  if (own == nullptr) throw Error(ErrorCode::kInvalidArgument, std::string(what) + ": memory of another backend");
  return own->get();
}

}  // namespace foretoken::vulkan
