// Implementations that only CUDA has; op_table.cpp puts them in front of those of backends/gpu.
#pragma once

#include "backends/kernel.h"
#include "backends/op_table.h"

namespace foretoken::cuda {

/// Of the experts that an implementation takes.
enum class ExpertFormats : uint8_t { kBF16AndNvfp4, kFp8 };

/// linear, linear_group and linear_silu_mul in prefill. `device` is where a library of the vendor makes its plans.
void add_prefill_ops(OpTable& table, const KernelModule& module, int device);
void add_attention_prefill_ops(OpTable& table, const KernelModule& module);                  // gated_attention
void add_delta_chunk_ops(OpTable& table, const KernelModule& module);                        // gated_delta_rule
void add_moe_prefill_ops(OpTable& table, const KernelModule& module);                        // moe_experts_up, moe_experts_down
void add_attention_split_ops(OpTable& table, const KernelModule& module);                    // few rows, queries in BF16
void add_moe_route_ops(OpTable& table, const KernelModule& module);                          // few rows
void add_moe_expert_ops(OpTable& table, const KernelModule& module, ExpertFormats formats);  // BF16 activations
void add_moe_block_ops(OpTable& table, const KernelModule& module);                          // few rows
void add_small_ops(OpTable& table, const KernelModule& module);   // linear, linear_group, linear_silu_mul over small weights
void add_stream_ops(OpTable& table, const KernelModule& module);  // linear, linear_group, linear_silu_mul over large weights
void add_stream_argmax_ops(OpTable& table, const KernelModule& module);

void add_abs_max_ops(OpTable& table, const KernelModule& module);

}  // namespace foretoken::cuda
