// A module of another version of the interface.
#include "backends/backend_module.h"

extern "C" const foretoken::BackendModule* foretoken_backend_module() {
  static constexpr foretoken::BackendModule kModule{
      .abi_version = foretoken::kBackendAbiVersion + 1, .name = "wrong_abi", .create_provider = nullptr};
  return &kModule;
}
