#include "backends/cuda/kernels/kernels.h"
#include "backends/cuda/kernels/small.cuh"

namespace foretoken::cuda {

void add_fp8_small_kernels(gpu::KernelList& list) {
  add_small_kernels<Fp8RowWeights>(list, "fp8_row");
  add_small_kernels<Fp8BlockWeights>(list, "fp8_block");
}

}  // namespace foretoken::cuda
