#include "backends/vulkan/vulkan_backend.h"

#include <string>
#include <utility>

#include "backends/vulkan/vulkan_buffer.h"
#include "backends/vulkan/vulkan_event.h"
#include "backends/vulkan/vulkan_program.h"
#include "backends/vulkan/vulkan_stream.h"

namespace foretoken::vulkan {

VulkanBackend::VulkanBackend(std::unique_ptr<Device> device, bool synchronous)
    : device_(std::move(device)),
      synchronous_(synchronous),
      capabilities_(device_capabilities(device_->physical())),
      pipelines_(*device_),
      kernels_(pipelines_),
      ops_(make_op_table(kernels_)),
      context_{.device = *device_, .pipelines = pipelines_, .ops = ops_, .capabilities = capabilities_} {}

Buffer VulkanBackend::allocate(size_t bytes, MemoryKind kind) {
  VulkanCommandList::refuse_while_recording("allocating memory");
  return Buffer(std::make_unique<VulkanBuffer>(*device_, bytes, kind, allocated_bytes_));
}

Buffer VulkanBackend::adopt_memory(const NativeMemory& memory) {
  VulkanCommandList::refuse_while_recording("adopting memory");
  return Buffer(std::make_unique<VulkanBuffer>(*device_, memory));
}

std::unique_ptr<Stream> VulkanBackend::create_stream() {
  VulkanCommandList::refuse_while_recording("creating a stream");
  return std::make_unique<VulkanStream>(context_, synchronous_);
}

std::unique_ptr<Event> VulkanBackend::create_event() { return std::make_unique<VulkanEvent>(*device_); }

Program VulkanBackend::record(std::string_view label, const RecordFn& fn) {
  VulkanCommandList::refuse_while_recording("recording a second Program");
  return Program(std::make_unique<VulkanProgram>(std::string(label), fn, context_));
}

}  // namespace foretoken::vulkan
