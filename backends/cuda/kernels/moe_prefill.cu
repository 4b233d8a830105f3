#include "backends/cuda/kernels/moe_prefill.cuh"

#include "backends/cuda/kernels/kernels.h"

namespace foretoken::cuda {

void add_moe_prefill_kernels(gpu::KernelList& list) {
  add_format<gpu::Bf16Format>(list, "bf16");
  add_format<gpu::Fp8RowFormat>(list, "fp8_row");
  add_format<gpu::Fp8BlockFormat>(list, "fp8_block");
  add_format<gpu::Nvfp4Format>(list, "nvfp4");
  list.push_back(expert_entry<ManyPairsTile, gpu::Bf16Format, true>("moe_prefill_up_bf16_many"));
  list.push_back(expert_entry<ManyPairsTile, gpu::Bf16Format, false>("moe_prefill_down_bf16_many"));
}

}  // namespace foretoken::cuda
