#include "backends/cuda/kernels/kernels.h"
#include "backends/cuda/kernels/small.cuh"

namespace foretoken::cuda {

void add_bf16_small_kernels(gpu::KernelList& list) { add_small_kernels<Bf16Weights>(list, "bf16"); }

}  // namespace foretoken::cuda
