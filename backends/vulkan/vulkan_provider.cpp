#include "backends/vulkan/vulkan_provider.h"

#include <cstdlib>
#include <string_view>
#include <utility>

#include "backends/vulkan/adopted_device.h"
#include "backends/vulkan/vulkan_backend.h"
#include "core/error.h"
#include "core/log.h"

namespace foretoken::vulkan {
namespace {

bool is_set(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && std::string_view(value) == "1";
}

}  // namespace

Availability VulkanProvider::availability() const {
  find();
  return devices_.empty() ? Availability::no(reason_) : Availability::yes();
}

std::vector<Capabilities> VulkanProvider::devices() const {
  find();
  std::vector<Capabilities> list;
  for (const PhysicalDevice& device : devices_) list.push_back(device_capabilities(device));
  return list;
}

std::unique_ptr<GpuBackend> VulkanProvider::open(int device_index, const BackendOptions& options) const {
  const bool synchronous = is_set("FORETOKEN_SYNC_KERNELS") || is_set("FORETOKEN_EAGER");
  if (options.vulkan) return std::make_unique<VulkanBackend>(adopt_device(*options.vulkan), synchronous);
  if (const Availability available = availability(); !available) {
    throw Error(ErrorCode::kUnsupported, "vulkan: " + available.reason());
  }
  if (device_index < 0 || static_cast<size_t>(device_index) >= devices_.size()) {
    throw Error(ErrorCode::kInvalidArgument, {.what = "no such Vulkan device",
                                              .expected = "vulkan:0 .. vulkan:" + std::to_string(devices_.size() - 1),
                                              .got = "vulkan:" + std::to_string(device_index)});
  }
  auto device = std::make_unique<Device>(*instance_, devices_[static_cast<size_t>(device_index)]);
  return std::make_unique<VulkanBackend>(std::move(device), synchronous);
}

void VulkanProvider::find() const {
  std::call_once(found_, [this] {
    try {
      instance_ = &Instance::of_process();
      for (PhysicalDevice& device : find_devices(*instance_)) {
        if (device.missing.empty()) {
          devices_.push_back(std::move(device));
          continue;
        }
        reason_ += (reason_.empty() ? "" : "; ") + std::string(device.properties.deviceName) + ": " + device.missing;
        log().info("vulkan: {} cannot be used: {}", device.properties.deviceName, device.missing);
      }
      if (reason_.empty()) reason_ = "no Vulkan driver has a device";
    } catch (const Error& error) {
      reason_ = error.what();
    }
  });
}

}  // namespace foretoken::vulkan
