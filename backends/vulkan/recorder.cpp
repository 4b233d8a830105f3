#include "backends/vulkan/recorder.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "backends/vulkan/vulkan_buffer.h"
#include "backends/vulkan/vulkan_error.h"

namespace foretoken::vulkan {
namespace {

constexpr size_t kParamsBlock = size_t{64} << 10;
constexpr size_t kParamsAlignment = 16;
constexpr VkPipelineStageFlags kWork = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT;
constexpr VkAccessFlags kReads = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_TRANSFER_READ_BIT;
constexpr VkAccessFlags kWrites = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT;

void barrier(VkCommandBuffer buffer, VkPipelineStageFlags before, VkAccessFlags written, VkPipelineStageFlags after,
             VkAccessFlags touched) {
  VkMemoryBarrier memory{};
  memory.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
  memory.srcAccessMask = written;
  memory.dstAccessMask = touched;
  vkCmdPipelineBarrier(buffer, before, after, 0, 1, &memory, 0, nullptr, 0, nullptr);
}

}  // namespace

DeviceAddress ParamsArena::keep(std::span<const std::byte> params) {
  if (used_ % kParamsBlock + params.size() > kParamsBlock) used_ = (used_ / kParamsBlock + 1) * kParamsBlock;
  const size_t block = used_ / kParamsBlock;
  const size_t offset = used_ % kParamsBlock;
  if (block == blocks_.size()) blocks_.emplace_back(*device_, kParamsBlock, MemoryKind::kHostVisible);
  std::memcpy(blocks_[block].host_data() + offset, params.data(), params.size());
  used_ += (params.size() + kParamsAlignment - 1) / kParamsAlignment * kParamsAlignment;
  return blocks_[block].address() + offset;
}

Commands::Commands(const Device& device, VkCommandPool pool)
    : device_(device), buffer_(device.make_command_buffer(pool)), params_(device) {}

void Commands::begin(VkCommandBufferUsageFlags usage) {
  params_.clear();
  hazards_.clear();
  bound_ = VK_NULL_HANDLE;
  VkCommandBufferBeginInfo info{};
  info.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
  info.flags = usage;
  check(vkBeginCommandBuffer(buffer_, &info), "vkBeginCommandBuffer");
  barrier(buffer_, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, VK_ACCESS_MEMORY_WRITE_BIT, kWork, kReads | kWrites);
}

void Commands::end() {
  barrier(buffer_, kWork, kWrites, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT | VK_PIPELINE_STAGE_HOST_BIT,
          VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT | VK_ACCESS_HOST_READ_BIT);
  check(vkEndCommandBuffer(buffer_), "vkEndCommandBuffer");
}

void Commands::launch(const VulkanKernelCode& code, const PipelineFactory& pipelines, Grid grid,
                      std::span<const std::byte> params, std::span<const Access> accesses) {
  const VkPipeline pipeline = code.pipeline();
  wait_for_hazards(accesses);
  if (pipeline != bound_) vkCmdBindPipeline(buffer_, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
  bound_ = pipeline;
  DeviceAddress address = 0;
  if (code.params_in_memory()) {
    address = params_.keep(params);
    params = std::as_bytes(std::span(&address, 1));
  }
  vkCmdPushConstants(buffer_, pipelines.layout(), VK_SHADER_STAGE_COMPUTE_BIT, 0, static_cast<uint32_t>(params.size()),
                     params.data());
  dispatch(grid);
}

void Commands::copy(const BufferView& source, const BufferView& destination) {
  const std::array accesses{Access{.view = source, .mode = AccessMode::kRead},
                            Access{.view = destination, .mode = AccessMode::kWrite}};
  const BufferPlace from = place_of(source, "copy: source");
  const BufferPlace to = place_of(destination, "copy: destination");
  wait_for_hazards(accesses);
  const VkBufferCopy region{.srcOffset = from.offset, .dstOffset = to.offset, .size = source.bytes};
  vkCmdCopyBuffer(buffer_, from.buffer, to.buffer, 1, &region);
}

void Commands::fill(const BufferView& destination, uint32_t pattern) {
  const std::array accesses{Access{.view = destination, .mode = AccessMode::kWrite}};
  const BufferPlace place = place_of(destination, "fill: destination");
  wait_for_hazards(accesses);
  vkCmdFillBuffer(buffer_, place.buffer, place.offset, destination.bytes, pattern);
}

void Commands::copy_staged(VkBuffer source, VkBuffer destination, const VkBufferCopy& region) {
  vkCmdCopyBuffer(buffer_, source, destination, 1, &region);
}

void Commands::write_timestamp(VkQueryPool pool) {
  vkCmdResetQueryPool(buffer_, pool, 0, 1);
  vkCmdWriteTimestamp(buffer_, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, pool, 0);
}

void Commands::wait_for_hazards(std::span<const Access> accesses) {
  if (hazards_.add(accesses)) barrier(buffer_, kWork, kWrites, kWork, kReads | kWrites);
}

void Commands::dispatch(Grid grid) {
  // Work groups keep their index in the whole grid where one dispatch cannot hold it.
  const uint32_t most = device_.limits().max_grid[0];
  for (uint32_t first = 0; first < grid.x; first += std::min(most, grid.x - first)) {
    vkCmdDispatchBase(buffer_, first, 0, 0, std::min(most, grid.x - first), grid.y, grid.z);
  }
}

}  // namespace foretoken::vulkan
