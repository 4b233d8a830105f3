// The kernels of one device, by name. Their pipelines are made when a launch first needs them.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "backends/kernel.h"
#include "backends/vulkan/pipeline_cache.h"
#include "backends/vulkan/shader_entry.h"
#include "backends/vulkan/vulkan_device.h"

namespace foretoken::vulkan {

/// What the pipelines of one device have in common.
class PipelineFactory {
 public:
  explicit PipelineFactory(const Device& device);

  [[nodiscard]] const Device& device() const { return device_; }
  [[nodiscard]] VkPipelineLayout layout() const { return layout_.get(); }
  /// Whether the parameters of a kernel lie in memory, because the device's push constants are too few.
  [[nodiscard]] bool params_in_memory(size_t params_bytes) const { return params_bytes > push_bytes_; }
  [[nodiscard]] Owned<VkPipeline> make(const ShaderEntry& entry) const;

 private:
  const Device& device_;
  size_t push_bytes_;
  Owned<VkPipelineLayout> layout_;
  PipelineCache cache_;
};

class VulkanKernelCode final : public KernelCode {
 public:
  /// Without a factory: a name and a size only, for tests.
  VulkanKernelCode(ShaderEntry entry, const PipelineFactory* factory);

  [[nodiscard]] uint32_t num_threads() const { return entry_.num_threads; }
  [[nodiscard]] bool params_in_memory() const { return factory_->params_in_memory(params_bytes()); }
  /// Makes it at the first call. Thread-safe. Throws DeviceError.
  [[nodiscard]] VkPipeline pipeline() const;

 private:
  ShaderEntry entry_;
  const PipelineFactory* factory_;
  mutable std::once_flag made_;
  mutable Owned<VkPipeline> pipeline_;
};

class VulkanKernelModule final : public KernelModule {
 public:
  /// Without a device: names and sizes only, for tests. Throws InternalError when two kernels have one name.
  VulkanKernelModule();
  explicit VulkanKernelModule(const PipelineFactory& factory);

  [[nodiscard]] const KernelCode* find(std::string_view name, std::string& reason) const override;
  [[nodiscard]] size_t size() const { return kernels_.size(); }

 private:
  explicit VulkanKernelModule(const PipelineFactory* factory);

  uint32_t max_group_threads_ = 0;  // 0 without a device
  std::map<std::string, VulkanKernelCode, std::less<>> kernels_;
};

}  // namespace foretoken::vulkan
