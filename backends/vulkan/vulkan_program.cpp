#include "backends/vulkan/vulkan_program.h"

#include <utility>

namespace foretoken::vulkan {

VulkanProgram::VulkanProgram(std::string label, RecordFn function, const ListContext& context)
    : ProgramBody(std::move(label), std::move(function)),
      device_(context.device),
      pool_(context.device.make_command_pool()),
      commands_(context.device, pool_.get()) {
  commands_.begin(VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT);  // replays follow one another without waiting for the host
  VulkanCommandList list(context, commands_, /*records=*/true, "program '" + this->label() + "'");
  this->function()(list);
  num_launches_ = list.num_launches();
  commands_.end();
}

VulkanProgram::~VulkanProgram() { device_.wait_idle(); }

}  // namespace foretoken::vulkan
