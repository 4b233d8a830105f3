#include "backends/backend_module.h"
#include "backends/gpu/host/provider.h"

namespace {

foretoken::BackendProvider* create_provider() { return new foretoken::cuda::RuntimeProvider(); }

constexpr foretoken::BackendModule kModule{
    .abi_version = foretoken::kBackendAbiVersion, .name = "cuda", .create_provider = create_provider};

}  // namespace

extern "C" __attribute__((visibility("default"))) const foretoken::BackendModule* foretoken_backend_module() { return &kModule; }
