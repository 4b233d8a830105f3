// Compiled pipelines, kept from one run to the next in a file.
#pragma once

#include <filesystem>

#include "backends/vulkan/vulkan_device.h"

namespace foretoken::vulkan {

/// Reads what an earlier run left and, when it goes, writes what this one added. The file lies in foretoken/ under
/// XDG_CACHE_HOME or ~/.cache; FORETOKEN_VULKAN_CACHE=0 keeps none. A file that is not of this device and driver is ignored.
class PipelineCache {
 public:
  explicit PipelineCache(const Device& device);
  ~PipelineCache();
  PipelineCache(const PipelineCache&) = delete;
  PipelineCache& operator=(const PipelineCache&) = delete;

  [[nodiscard]] VkPipelineCache get() const { return cache_.get(); }

 private:
  const Device& device_;
  std::filesystem::path file_;  // empty: not kept
  size_t loaded_bytes_ = 0;
  Owned<VkPipelineCache> cache_;
};

/// Where the pipelines of a device are kept; empty when they are not.
[[nodiscard]] std::filesystem::path pipeline_cache_file(const VkPhysicalDeviceProperties& properties);

/// The content of `file` when it was written for this device and driver; otherwise nothing, and the log says why.
[[nodiscard]] std::vector<std::byte> read_pipeline_cache(const std::filesystem::path& file,
                                                         const VkPhysicalDeviceProperties& properties);

}  // namespace foretoken::vulkan
