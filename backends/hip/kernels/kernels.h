// The kernel sources that only HIP has, each with the list of what it holds.
#pragma once

#include "backends/gpu/kernel_entry.h"

namespace foretoken::hip {

void add_prefill_kernels(gpu::KernelList& list);

/// Why a device of `architecture` cannot multiply blocks of BF16 matrices; empty: it can.
[[nodiscard]] std::string missing_matrix_instructions(uint32_t architecture);

}  // namespace foretoken::hip
