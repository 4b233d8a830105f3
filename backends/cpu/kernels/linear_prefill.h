// The kernels around the BF16 matrix product of prefill join the list of the linear ones.
#pragma once

#include <vector>

#include "backends/cpu/kernel_entry.h"

namespace foretoken::cpu::FORETOKEN_CPU_ISA {

/// Adds prefill_round and prefill_store where the instruction set has them.
void add_prefill_kernels(std::vector<KernelEntry>& list);

}  // namespace foretoken::cpu::FORETOKEN_CPU_ISA
