// The AMX kernels join the AVX-512 ones on CPUs that have both.
#pragma once

#include <vector>

#include "backends/cpu/kernel_entry.h"

namespace foretoken::cpu::avx512 {

/// Adds amx_pack and amx_linear. Only for CPUs with AMX-BF16 whose tiles this process may use.
void add_amx_kernels(std::vector<KernelEntry>& list);
/// Adds amx_gated_delta_rule, likewise.
void add_amx_delta_kernels(std::vector<KernelEntry>& list);
/// Adds amx_gated_attention, likewise.
void add_amx_attention_kernels(std::vector<KernelEntry>& list);

}  // namespace foretoken::cpu::avx512
