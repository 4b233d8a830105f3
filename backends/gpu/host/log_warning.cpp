#include "backends/gpu/host/log_warning.h"

#include "core/log.h"

namespace foretoken::gpu {

void log_warning(std::string_view message) noexcept {
  try {
    log().warn("{}", message);
  } catch (...) {  // NOLINT(bugprone-empty-catch): see above
  }
}

}  // namespace foretoken::gpu
