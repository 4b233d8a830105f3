// How much of the machine this process may use: cores and memory, with the limits of its control group.
#pragma once

#include <cstdint>

namespace foretoken::cpu {

/// Physical cores among those that this process may run on, no more than its CPU quota; at least 1.
[[nodiscard]] int usable_cores();

/// Memory that this process may have in all.
[[nodiscard]] uint64_t total_memory_bytes();

/// Memory that this process may still take without swapping.
[[nodiscard]] uint64_t available_memory_bytes();

}  // namespace foretoken::cpu
