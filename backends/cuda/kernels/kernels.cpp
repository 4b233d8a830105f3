#include "backends/cuda/kernels/kernels.h"

#include "backends/gpu/host/kernel_module.h"
#include "backends/gpu/kernel_lists.h"

namespace foretoken::cuda {

gpu::KernelList all_kernels() {
  gpu::KernelList list = gpu::common_kernels();
  add_attention_prefill_kernels(list);
  add_attention_split_kernels(list);
  add_delta_chunk_kernels(list);
  add_delta_cluster_kernels(list);
  add_moe_route_kernels(list);
  add_bf16_moe_kernels(list);
  add_fp8_moe_kernels(list);
  add_nvfp4_moe_kernels(list);
  add_moe_prefill_kernels(list);
  add_prefill_kernels(list);
  add_abs_max_kernels(list);
  add_bf16_small_kernels(list);
  add_fp8_small_kernels(list);
  add_nvfp4_small_kernels(list);
  add_bf16_stream_kernels(list);
  add_fp8_row_stream_kernels(list);
  add_fp8_block_stream_kernels(list);
  add_nvfp4_stream_kernels(list);
  add_block_scaled_stream_kernels(list);
  return list;
}

}  // namespace foretoken::cuda
