#include "backends/cuda/kernels/kernels.h"

#include "backends/cuda/kernel_module.h"

namespace foretoken::cuda {

gpu::KernelList all_kernels() {
  gpu::KernelList list;
  add_attention_kernels(list);
  add_attention_prefill_kernels(list);
  add_attention_split_kernels(list);
  add_delta_chunk_kernels(list);
  add_delta_net_kernels(list);
  add_linear_combine_kernels(list);
  add_moe_kernels(list);
  add_moe_route_kernels(list);
  add_bf16_moe_kernels(list);
  add_fp8_moe_kernels(list);
  add_nvfp4_moe_kernels(list);
  add_moe_prefill_kernels(list);
  add_norm_kernels(list);
  add_prefill_kernels(list);
  add_quantize_kernels(list);
  add_sample_kernels(list);
  add_sampling_kernels(list);
  add_bf16_small_kernels(list);
  add_fp8_small_kernels(list);
  add_nvfp4_small_kernels(list);
  add_f32_weight_kernels(list);
  add_bf16_weight_kernels(list);
  add_fp8_row_weight_kernels(list);
  add_fp8_block_weight_kernels(list);
  add_nvfp4_weight_kernels(list);
  add_bf16_stream_kernels(list);
  add_fp8_row_stream_kernels(list);
  add_fp8_block_stream_kernels(list);
  add_nvfp4_stream_kernels(list);
  add_block_scaled_stream_kernels(list);
  return list;
}

}  // namespace foretoken::cuda
