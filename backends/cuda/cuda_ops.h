// Implementations that only CUDA has; op_table.cpp puts them in front of those of backends/gpu.
#pragma once

#include "backends/kernel.h"
#include "backends/op_table.h"

namespace foretoken::cuda {

void add_moe_ops(OpTable& table, const KernelModule& module);      // moe_*: few rows, BF16 activations
void add_prefill_ops(OpTable& table, const KernelModule& module);  // linear, linear_silu_mul with BF16 activations
void add_small_ops(OpTable& table, const KernelModule& module);    // linear, linear_group, linear_silu_mul over small weights
void add_stream_ops(OpTable& table, const KernelModule& module);   // linear, linear_group, linear_silu_mul over large weights
void add_stream_argmax_ops(OpTable& table, const KernelModule& module);

void add_abs_max_ops(OpTable& table, const KernelModule& module);

}  // namespace foretoken::cuda
