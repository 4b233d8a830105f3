// The entry of the loadable module.
#include "backends/backend_module.h"
#include "backends/gpu/host/provider.h"

namespace foretoken::FORETOKEN_GPU_NAMESPACE {
namespace {

BackendProvider* create_provider() { return new RuntimeProvider(); }

constexpr BackendModule kModule{
    .abi_version = kBackendAbiVersion, .name = runtime::kName.data(), .create_provider = create_provider};

}  // namespace
}  // namespace foretoken::FORETOKEN_GPU_NAMESPACE

extern "C" __attribute__((visibility("default"))) const foretoken::BackendModule* foretoken_backend_module() {
  return &foretoken::FORETOKEN_GPU_NAMESPACE::kModule;
}
