// The entry of the loadable module.
#include "backends/backend_module.h"
#include "backends/vulkan/vulkan_provider.h"

namespace foretoken::vulkan {
namespace {

BackendProvider* create_provider() { return new VulkanProvider(); }

constexpr BackendModule kModule{.abi_version = kBackendAbiVersion, .name = "vulkan", .create_provider = create_provider};

}  // namespace
}  // namespace foretoken::vulkan

extern "C" __attribute__((visibility("default"))) const foretoken::BackendModule* foretoken_backend_module() {
  return &foretoken::vulkan::kModule;
}
