#include "backends/gpu/kernel_lists.h"

namespace foretoken::gpu {

KernelList common_kernels() {
  KernelList list;
  add_attention_kernels(list);
  add_bf16_weight_kernels(list);
  add_delta_net_kernels(list);
  add_f32_weight_kernels(list);
  add_fp8_block_weight_kernels(list);
  add_fp8_row_weight_kernels(list);
  add_linear_combine_kernels(list);
  add_moe_kernels(list);
  add_norm_kernels(list);
  add_nvfp4_weight_kernels(list);
  add_quantize_kernels(list);
  add_sample_kernels(list);
  add_sampling_kernels(list);
  return list;
}

}  // namespace foretoken::gpu
