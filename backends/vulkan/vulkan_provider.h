// Finds the Vulkan devices and opens them.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backends/backend.h"
#include "backends/vulkan/vulkan_physical_device.h"

namespace foretoken::vulkan {

/// Asks the loader at the first call and says why there is no device where the loader, a driver or a feature is missing. `open`
/// reads FORETOKEN_SYNC_KERNELS and FORETOKEN_EAGER: with either at 1 every launch is waited for, and an error names the kernel
/// that caused it.
class VulkanProvider final : public BackendProvider {
 public:
  [[nodiscard]] std::string name() const override { return "vulkan"; }
  [[nodiscard]] Availability availability() const override;
  [[nodiscard]] std::vector<Capabilities> devices() const override;
  [[nodiscard]] std::unique_ptr<GpuBackend> open(int device_index, const BackendOptions& options) const override;

 private:
  /// Finds the devices, once.
  void find() const;

  mutable std::once_flag found_;
  mutable const Instance* instance_ = nullptr;
  mutable std::vector<PhysicalDevice> devices_;  // those that can be used
  mutable std::string reason_;                   // why there is none
};

}  // namespace foretoken::vulkan
