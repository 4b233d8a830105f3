// How fast this machine's threads read memory: what decode speed is held against.
#pragma once

#include <cstdint>

namespace foretoken::cli {

/// Bytes per second that `num_threads` threads, each bound to nothing and reading its own part of 1 GiB or more in order, reach
/// together: the best of several passes. Throws OutOfMemory.
[[nodiscard]] double measure_read_bandwidth(int num_threads);

/// Bytes of all last-level caches of this machine together; 64 MiB where the system does not say.
[[nodiscard]] uint64_t last_level_cache_bytes();

}  // namespace foretoken::cli
