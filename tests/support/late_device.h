// A device unlike a CPU, for tests: it computes with the CPU's kernels, but late, on another thread.
#pragma once

#include <cstdint>
#include <memory>

#include "backends/backend.h"

namespace foretoken::test {

/// How late the device is. Delays are drawn from the seed, so a run can be repeated.
struct LateOptions {
  uint64_t seed = 1;
  int max_delay_us = 50;  // before each piece of work; 0: none
};

/// A backend whose streams queue their work for a thread of their own, which runs each piece after a random delay. Device memory
/// can be touched by that thread only: while no work runs, an access by the host ends the process with a signal. Uploads copy
/// their source at the call, faults surface at the next call that waits. `options.num_threads` are those of the CPU pool
/// underneath. Throws what opening the CPU throws.
[[nodiscard]] std::unique_ptr<GpuBackend> make_late_backend(const BackendOptions& options, const LateOptions& late = {});

}  // namespace foretoken::test
