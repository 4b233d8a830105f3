// A recording: a command buffer that streams submit as often as they like.
#pragma once

#include "backends/program.h"
#include "backends/vulkan/vulkan_command_list.h"

namespace foretoken::vulkan {

class VulkanProgram final : public ProgramBody {
 public:
  /// Records what `function` puts on a list of `context`. Throws what `function` throws; nothing is left behind then.
  VulkanProgram(std::string label, RecordFn function, const ListContext& context);
  /// Waits until no replay is under way.
  ~VulkanProgram() override;

  [[nodiscard]] size_t num_launches() const override { return num_launches_; }
  [[nodiscard]] VkCommandBuffer commands() const { return commands_.get(); }

 private:
  const Device& device_;
  Owned<VkCommandPool> pool_;
  Commands commands_;
  size_t num_launches_ = 0;
};

}  // namespace foretoken::vulkan
