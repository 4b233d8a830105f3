// Implementations that only HIP has; op_table.cpp puts them in front of those of backends/gpu.
#pragma once

#include "backends/kernel.h"
#include "backends/op_table.h"

namespace foretoken::hip {

void add_prefill_ops(OpTable& table, const KernelModule& module);  // linear, linear_silu_mul

}  // namespace foretoken::hip
