#include "backends/backend_module.h"
#include "backends/null/null_backend.h"

namespace {

foretoken::BackendProvider* create_provider() { return new foretoken::null::NullProvider(); }

constexpr foretoken::BackendModule kModule{
    .abi_version = foretoken::kBackendAbiVersion, .name = "null", .create_provider = create_provider};

}  // namespace

extern "C" __attribute__((visibility("default"))) const foretoken::BackendModule* foretoken_backend_module() { return &kModule; }
