// One command buffer while it is filled: launches and copies with the barriers between them, and the parameters that push
// constants cannot hold.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "backends/command_list.h"
#include "backends/vulkan/hazards.h"
#include "backends/vulkan/kernel_module.h"

namespace foretoken::vulkan {

/// Parameters in memory that the device reads. They live as long as the command buffer that names them.
class ParamsArena {
 public:
  explicit ParamsArena(const Device& device) : device_(&device) {}

  /// Copies `params` and returns where the device finds them.
  [[nodiscard]] DeviceAddress keep(std::span<const std::byte> params);
  /// Forgets what is kept; the memory is used again.
  void clear() { used_ = 0; }

 private:
  const Device* device_;
  std::vector<Memory> blocks_;
  size_t used_ = 0;  // bytes, over all blocks
};

/// A command buffer and the parameters in it.
class Commands {
 public:
  Commands(const Device& device, VkCommandPool pool);

  [[nodiscard]] VkCommandBuffer get() const { return buffer_; }
  /// Empties it. Everything that was submitted to the queue before comes first, whoever did.
  void begin(VkCommandBufferUsageFlags usage);
  /// After it the host sees what was written, and so does whatever is submitted to the queue later.
  void end();

  void launch(const VulkanKernelCode& code, const PipelineFactory& pipelines, Grid grid, std::span<const std::byte> params,
              std::span<const Access> accesses);
  void copy(const BufferView& source, const BufferView& destination);
  void fill(const BufferView& destination, uint32_t pattern);
  /// Between memory of the host that no launch touches and the device's; the only command in its buffer.
  void copy_staged(VkBuffer source, VkBuffer destination, const VkBufferCopy& region);
  void write_timestamp(VkQueryPool pool);

 private:
  void wait_for_hazards(std::span<const Access> accesses);
  void dispatch(Grid grid);

  const Device& device_;
  VkCommandBuffer buffer_;
  ParamsArena params_;
  Hazards hazards_;
  VkPipeline bound_ = VK_NULL_HANDLE;
};

}  // namespace foretoken::vulkan
