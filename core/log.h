// The library's logger: spdlog, to stderr, level from FORETOKEN_LOG (trace, debug, info, warn, error, off; default warn).
// FORETOKEN_LOG=dispatch logs at info and adds which operator implementations were passed over, and why.
#pragma once

#include <spdlog/spdlog.h>

namespace foretoken {

/// The logger; made on first use. Thread-safe.
spdlog::logger& log();

/// Whether FORETOKEN_LOG asks for operator selection to be logged.
bool log_dispatch();

}  // namespace foretoken
