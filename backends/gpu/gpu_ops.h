// The implementations that every GPU backend has in common: which kernels of backends/gpu an operator launches, with what. A
// backend gives its own module of kernels and may put better implementations in front.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "backends/kernel.h"
#include "backends/op_table.h"

namespace foretoken::gpu {

void add_linear_ops(OpTable& table, const KernelModule& module);  // linear, linear_silu_mul, linear_argmax
void add_moe_ops(OpTable& table, const KernelModule& module);     // moe_route, moe_experts_up, moe_experts_down
void add_sampling_ops(OpTable& table,
                      const KernelModule& module);                // argmax, select_tokens, accept_drafts, embedding, random_fill
void add_sample_ops(OpTable& table, const KernelModule& module);  // process_logits, count_tokens, sample_*, accept_sampled
void add_norm_ops(OpTable& table, const KernelModule& module);    // rms_norm, add_rms_norm, rope_table, rope
void add_attention_ops(OpTable& table, const KernelModule& module);  // qk_norm_rope_cache, gated_attention
void add_delta_net_ops(OpTable& table, const KernelModule& module);  // causal_conv1d_silu, gated_delta_rule
/// gated_delta_rule over heads of the largest size as `name`, by a kernel that shares a head out among `groups_per_head` work
/// groups and may be absent.
void add_whole_head_rule(OpTable& table, const KernelModule& module, std::string name, std::string_view kernel_name,
                         uint32_t groups_per_head);
void add_quantize_ops(OpTable& table, const KernelModule& module);  // abs_max, quantize_*, dequantize

/// All of these behind those of `preferred`: the table of a backend that has few implementations of its own, or none.
[[nodiscard]] OpTable portable_op_table(const KernelModule& module, OpTable preferred = {});

}  // namespace foretoken::gpu
