// The linear kernels on the tile unit of AMX (linear_tiles.h).
#pragma once

#include <vector>

#include "backends/cpu/kernel_entry.h"

namespace foretoken::cpu::avx512 {

/// Adds linear_tiles_bf16, linear_silu_mul_tiles_bf16, linear_argmax_tiles_bf16, moe_experts_up_tiles_bf16 and
/// moe_experts_down_tiles_bf16, with the parameters of the kernels without "tiles", and linear_group_tiles for parts in BF16. For
/// CPUs with AMX-BF16 and permission to use tiles.
void add_amx_linear_kernels(std::vector<KernelEntry>& list);

}  // namespace foretoken::cpu::avx512
