// The CPU's implementations, in groups; op_table.cpp lists them, best first.
#pragma once

#include "backends/kernel.h"
#include "backends/op_table.h"

namespace foretoken::cpu {

void add_linear_ops(OpTable& table, const KernelModule& module);   // linear, linear_group, linear_silu_mul, linear_argmax, exact
void add_amx_ops(OpTable& table, const KernelModule& module);      // linear, linear_silu_mul with BF16 activations (AMX)
void add_prefill_ops(OpTable& table, const KernelModule& module);  // linear, linear_silu_mul with BF16 activations (oneDNN)
void add_moe_ops(OpTable& table, const KernelModule& module);      // moe_route, moe_experts_up, moe_experts_down
void add_sampling_ops(OpTable& table,
                      const KernelModule& module);                // argmax, select_tokens, accept_drafts, embedding, random_fill
void add_sample_ops(OpTable& table, const KernelModule& module);  // process_logits, count_tokens, sample_*, accept_sampled
void add_norm_ops(OpTable& table, const KernelModule& module);    // rms_norm, add_rms_norm, rope_table, rope
void add_attention_ops(OpTable& table, const KernelModule& module);  // qk_norm_rope_cache, gated_attention
void add_delta_net_ops(OpTable& table, const KernelModule& module);  // causal_conv1d_silu, gated_delta_rule
void add_quantize_ops(OpTable& table, const KernelModule& module);   // abs_max, quantize_*, dequantize

}  // namespace foretoken::cpu
