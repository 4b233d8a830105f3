// The kernel sources of CUDA, each with the list of what it holds.
#pragma once

#include "backends/gpu/kernel_entry.h"

namespace foretoken::cuda {

void add_attention_kernels(gpu::KernelList& list);
void add_attention_prefill_kernels(gpu::KernelList& list);
void add_attention_split_kernels(gpu::KernelList& list);
void add_delta_chunk_kernels(gpu::KernelList& list);
void add_delta_net_kernels(gpu::KernelList& list);
void add_linear_combine_kernels(gpu::KernelList& list);
void add_moe_kernels(gpu::KernelList& list);
void add_moe_route_kernels(gpu::KernelList& list);
void add_bf16_moe_kernels(gpu::KernelList& list);
void add_fp8_moe_kernels(gpu::KernelList& list);
void add_nvfp4_moe_kernels(gpu::KernelList& list);
void add_moe_prefill_kernels(gpu::KernelList& list);
void add_norm_kernels(gpu::KernelList& list);
void add_prefill_kernels(gpu::KernelList& list);
void add_quantize_kernels(gpu::KernelList& list);
void add_sample_kernels(gpu::KernelList& list);
void add_sampling_kernels(gpu::KernelList& list);
void add_bf16_small_kernels(gpu::KernelList& list);
void add_fp8_small_kernels(gpu::KernelList& list);
void add_nvfp4_small_kernels(gpu::KernelList& list);
void add_f32_weight_kernels(gpu::KernelList& list);
void add_bf16_weight_kernels(gpu::KernelList& list);
void add_fp8_row_weight_kernels(gpu::KernelList& list);
void add_fp8_block_weight_kernels(gpu::KernelList& list);
void add_nvfp4_weight_kernels(gpu::KernelList& list);
void add_bf16_stream_kernels(gpu::KernelList& list);
void add_fp8_row_stream_kernels(gpu::KernelList& list);
void add_fp8_block_stream_kernels(gpu::KernelList& list);
void add_nvfp4_stream_kernels(gpu::KernelList& list);
void add_block_scaled_stream_kernels(gpu::KernelList& list);

}  // namespace foretoken::cuda
