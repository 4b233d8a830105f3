#include "backends/cuda/kernels/kernels.h"
#include "backends/cuda/kernels/moe_block_down.cuh"
#include "backends/cuda/kernels/moe_down.cuh"

namespace foretoken::cuda {

void add_bf16_moe_kernels(gpu::KernelList& list) {
  add_moe_kernels<Bf16Weights>(list, "bf16");
  add_moe_block_kernels<Bf16Weights>(list, "bf16");
}

}  // namespace foretoken::cuda
