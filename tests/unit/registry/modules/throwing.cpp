// A module whose provider cannot be made.
#include "backends/backend_module.h"
#include "core/error.h"

namespace {

foretoken::BackendProvider* create_provider() {
  throw foretoken::Error(foretoken::ErrorCode::kDeviceError, "no driver: it is away");
}

}  // namespace

extern "C" const foretoken::BackendModule* foretoken_backend_module() {
  static constexpr foretoken::BackendModule kModule{
      .abi_version = foretoken::kBackendAbiVersion, .name = "throwing", .create_provider = create_provider};
  return &kModule;
}
