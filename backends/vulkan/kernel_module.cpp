#include "backends/vulkan/kernel_module.h"

#include <algorithm>
#include <array>
#include <utility>

#include "backends/vulkan/vulkan_error.h"
#include "core/error.h"

namespace foretoken::vulkan {
namespace {

// The largest parameter structure there is room for; every device has 128 bytes.
constexpr uint32_t kMaxPushBytes = 256;

Owned<VkShaderModule> make_shader(const Device& device, std::span<const uint32_t> general, const std::string& name) {
  const std::vector<uint32_t> code = with_float_modes(general, device.physical().float_modes);
  VkShaderModuleCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO;
  info.codeSize = code.size() * sizeof(uint32_t);
  info.pCode = code.data();
  VkShaderModule shader = VK_NULL_HANDLE;
  check(vkCreateShaderModule(device.get(), &info, nullptr, &shader), "vkCreateShaderModule", "kernel " + name);
  return {device.get(), shader};
}

}  // namespace

PipelineFactory::PipelineFactory(const Device& device)
    : device_(device), push_bytes_(std::min(device.limits().max_push_constants, kMaxPushBytes)), cache_(device) {
  const VkPushConstantRange range{
      .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT, .offset = 0, .size = static_cast<uint32_t>(push_bytes_)};
  VkPipelineLayoutCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO;
  info.pushConstantRangeCount = 1;
  info.pPushConstantRanges = &range;
  VkPipelineLayout layout = VK_NULL_HANDLE;
  check(vkCreatePipelineLayout(device.get(), &info, nullptr, &layout), "vkCreatePipelineLayout");
  layout_ = {device.get(), layout};
}

Owned<VkPipeline> PipelineFactory::make(const ShaderEntry& entry) const {
  const DeviceLimits& limits = device_.limits();
  const bool in_memory = params_in_memory(entry.params_bytes);
  const Owned<VkShaderModule> shader = make_shader(device_, in_memory ? entry.code.in_memory : entry.code.pushed, entry.name);
  // Specialisation constants 0 and 1 of device.glsl.
  const std::array<uint32_t, 2> constants{entry.num_threads, limits.subgroup_size};
  constexpr std::array<VkSpecializationMapEntry, 2> kConstants{
      VkSpecializationMapEntry{.constantID = 0, .offset = 0, .size = sizeof(uint32_t)},
      VkSpecializationMapEntry{.constantID = 1, .offset = sizeof(uint32_t), .size = sizeof(uint32_t)}};
  const VkSpecializationInfo specialisation{.mapEntryCount = kConstants.size(),
                                            .pMapEntries = kConstants.data(),
                                            .dataSize = sizeof(constants),
                                            .pData = constants.data()};
  VkPipelineShaderStageRequiredSubgroupSizeCreateInfo subgroup{};
  subgroup.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO;
  subgroup.requiredSubgroupSize = limits.subgroup_size;
  VkComputePipelineCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO;
  info.flags = VK_PIPELINE_CREATE_DISPATCH_BASE_BIT;
  info.layout = layout_.get();
  info.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
  info.stage.pNext = limits.chooses_subgroup_size ? &subgroup : nullptr;
  if (limits.full_subgroups && entry.num_threads % limits.subgroup_size == 0) {
    info.stage.flags = VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT;
  }
  info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
  info.stage.module = shader.get();
  info.stage.pName = "main";
  info.stage.pSpecializationInfo = &specialisation;
  VkPipeline pipeline = VK_NULL_HANDLE;
  check(vkCreateComputePipelines(device_.get(), cache_.get(), 1, &info, nullptr, &pipeline), "vkCreateComputePipelines",
        "kernel " + entry.name);
  return {device_.get(), pipeline};
}

VulkanKernelCode::VulkanKernelCode(ShaderEntry entry, const PipelineFactory* factory)
    : KernelCode(entry.name, entry.params_bytes), entry_(std::move(entry)), factory_(factory) {}

VkPipeline VulkanKernelCode::pipeline() const {
  std::call_once(made_, [this] { pipeline_ = factory_->make(entry_); });
  return pipeline_.get();
}

VulkanKernelModule::VulkanKernelModule() : VulkanKernelModule(nullptr) {}

VulkanKernelModule::VulkanKernelModule(const PipelineFactory& factory) : VulkanKernelModule(&factory) {
  max_group_threads_ = factory.device().limits().max_group_threads;
}

VulkanKernelModule::VulkanKernelModule(const PipelineFactory* factory) {
  for (ShaderEntry& entry : all_shaders()) {
    std::string name = entry.name;
    if (!kernels_.try_emplace(name, std::move(entry), factory).second) {
      throw Error(ErrorCode::kInternalError, "two Vulkan kernels are called " + name);
    }
  }
}

const KernelCode* VulkanKernelModule::find(std::string_view name, std::string& reason) const {
  const auto found = kernels_.find(name);
  if (found == kernels_.end()) {
    reason = "no such Vulkan kernel";
    return nullptr;
  }
  const uint32_t threads = found->second.num_threads();
  if (max_group_threads_ != 0 && threads > max_group_threads_) {
    reason =
        "a work group has " + std::to_string(threads) + " invocations, this device allows " + std::to_string(max_group_threads_);
    return nullptr;
  }
  return &found->second;
}

}  // namespace foretoken::vulkan
