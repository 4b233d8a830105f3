// What a loadable backend exports: one function with C linkage, `foretoken_backend_module`, that returns this structure.
#pragma once

#include <cstdint>

namespace foretoken {

class BackendProvider;

/// Raised whenever a header of backends/ or core/ changes its layout; the registry refuses modules of another version.
inline constexpr uint32_t kBackendAbiVersion = 2;

struct BackendModule {
  uint32_t abi_version;
  const char* name;                       // "cuda", ...
  BackendProvider* (*create_provider)();  // caller owns the result; may throw foretoken::Error
};

}  // namespace foretoken

extern "C" {
/// Signature of the exported entry.
using foretoken_backend_module_fn = const foretoken::BackendModule* (*)();
}
