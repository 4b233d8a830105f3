#include "backends/cuda/kernels/kernels.h"
#include "backends/cuda/kernels/moe_block_down.cuh"
#include "backends/cuda/kernels/moe_down.cuh"

namespace foretoken::cuda {

void add_nvfp4_moe_kernels(gpu::KernelList& list) {
  add_moe_kernels<Nvfp4Weights>(list, "nvfp4");
  add_moe_block_kernels<Nvfp4Weights>(list, "nvfp4");
}

}  // namespace foretoken::cuda
