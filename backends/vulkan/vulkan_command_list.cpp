#include "backends/vulkan/vulkan_command_list.h"

#include <utility>

#include "backends/view_checks.h"
#include "core/error.h"

namespace foretoken::vulkan {
namespace {

constexpr uint32_t kMaxGridX = 0x7fffffffU;  // in as many dispatches as it takes

void check_grid(const KernelCode& code, Grid grid, const DeviceLimits& limits) {
  if (grid.group_memory != 0) {
    throw Error(ErrorCode::kInvalidArgument,
                "launch of kernel " + code.name() + ": a Vulkan kernel declares all its group memory");
  }
  if (grid.x <= kMaxGridX && grid.y <= limits.max_grid[1] && grid.z <= limits.max_grid[2]) return;
  throw Error(ErrorCode::kInvalidArgument,
              {.what = "launch of kernel " + code.name() + " with too large a grid",
               .expected = "at most " + std::to_string(kMaxGridX) + " x " + std::to_string(limits.max_grid[1]) + " x " +
                           std::to_string(limits.max_grid[2]),
               .got = std::to_string(grid.x) + " x " + std::to_string(grid.y) + " x " + std::to_string(grid.z)});
}

}  // namespace

VulkanCommandList::VulkanCommandList(const ListContext& context, Commands& commands, bool records, std::string owner,
                                     RunNow run_now)
    : RefusesWhileRecording(records),
      context_(context),
      commands_(commands),
      records_(records),
      owner_(std::move(owner)),
      run_now_(std::move(run_now)) {}

void VulkanCommandList::launch(const KernelCode& code, Grid grid, std::span<const std::byte> params,
                               std::span<const Access> accesses) {
  const auto& kernel = checked_kernel<VulkanKernelCode>(code, params);
  check_grid(code, grid, context_.device.limits());
  for (const Access& access : accesses) check_view(access.view, "operand of kernel " + code.name());
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  commands_.launch(kernel, context_.pipelines, grid, params, accesses);
  launched(code.name());
}

void VulkanCommandList::copy(const BufferView& source, const BufferView& destination) {
  check_copy(source, destination);
  if (source.bytes == 0) return;
  commands_.copy(source, destination);
  launched("copy");
}

void VulkanCommandList::fill(const BufferView& destination, uint32_t pattern) {
  check_fill(destination);
  if (destination.bytes == 0) return;
  if (destination.offset % sizeof(uint32_t) != 0) {
    throw Error(ErrorCode::kInvalidArgument,
                {.what = "fill", .expected = "an offset that is a multiple of 4", .got = std::to_string(destination.offset)});
  }
  commands_.fill(destination, pattern);
  launched("fill");
}

void VulkanCommandList::launched(std::string_view what) {
  ++num_launches_;
  if (!run_now_) return;
  run_now_(owner_ + ", launch " + std::to_string(num_launches_) + " (" + std::string(what) +
           (label_.empty() ? "" : ", " + label_) + ")");
}

}  // namespace foretoken::vulkan
