// The kernel sources that only CUDA has, each with the list of what it holds.
#pragma once

#include "backends/gpu/kernel_entry.h"

namespace foretoken::cuda {

void add_attention_prefill_kernels(gpu::KernelList& list);
void add_attention_split_kernels(gpu::KernelList& list);
void add_delta_chunk_kernels(gpu::KernelList& list);
void add_delta_cluster_kernels(gpu::KernelList& list);
void add_moe_route_kernels(gpu::KernelList& list);
void add_bf16_moe_kernels(gpu::KernelList& list);
void add_fp8_moe_kernels(gpu::KernelList& list);
void add_nvfp4_moe_kernels(gpu::KernelList& list);
void add_moe_prefill_kernels(gpu::KernelList& list);
void add_prefill_kernels(gpu::KernelList& list);
void add_abs_max_kernels(gpu::KernelList& list);
void add_bf16_small_kernels(gpu::KernelList& list);
void add_fp8_small_kernels(gpu::KernelList& list);
void add_nvfp4_small_kernels(gpu::KernelList& list);
void add_bf16_stream_kernels(gpu::KernelList& list);
void add_fp8_row_stream_kernels(gpu::KernelList& list);
void add_fp8_block_stream_kernels(gpu::KernelList& list);
void add_nvfp4_stream_kernels(gpu::KernelList& list);
void add_block_scaled_stream_kernels(gpu::KernelList& list);

}  // namespace foretoken::cuda
