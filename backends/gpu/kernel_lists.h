// The kernel sources that every GPU backend has, each with the list of what it holds: a backend compiles each of them once.
#pragma once

#include "backends/gpu/kernel_entry.h"

namespace foretoken::gpu {

void add_attention_kernels(KernelList& list);
void add_bf16_weight_kernels(KernelList& list);
void add_delta_net_kernels(KernelList& list);
void add_f32_weight_kernels(KernelList& list);
void add_fp8_block_weight_kernels(KernelList& list);
void add_fp8_row_weight_kernels(KernelList& list);
void add_linear_combine_kernels(KernelList& list);
void add_moe_kernels(KernelList& list);
void add_norm_kernels(KernelList& list);
void add_nvfp4_weight_kernels(KernelList& list);
void add_quantize_kernels(KernelList& list);
void add_sample_kernels(KernelList& list);
void add_sampling_kernels(KernelList& list);

/// All of them.
[[nodiscard]] KernelList common_kernels();

}  // namespace foretoken::gpu
