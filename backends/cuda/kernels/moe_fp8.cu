#include "backends/cuda/kernels/kernels.h"
#include "backends/cuda/kernels/moe_down.cuh"

namespace foretoken::cuda {

void add_fp8_moe_kernels(gpu::KernelList& list) {
  add_moe_kernels<Fp8RowWeights>(list, "fp8_row");
  add_moe_kernels<Fp8BlockWeights>(list, "fp8_block");
}

}  // namespace foretoken::cuda
