// A warning from where nothing may be thrown.
#pragma once

#include <string_view>

namespace foretoken::gpu {

/// Logs `message`; a log that cannot be written is no reason to end the process.
void log_warning(std::string_view message) noexcept;

}  // namespace foretoken::gpu
