// The built-in backend of the registry.
#pragma once

#include <memory>

#include "backends/backend.h"

namespace foretoken::cpu {

/// Finds one device, the CPU of this machine.
[[nodiscard]] std::unique_ptr<BackendProvider> make_cpu_provider();

}  // namespace foretoken::cpu
