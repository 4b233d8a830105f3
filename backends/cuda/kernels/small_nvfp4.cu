#include "backends/cuda/kernels/kernels.h"
#include "backends/cuda/kernels/small.cuh"

namespace foretoken::cuda {

void add_nvfp4_small_kernels(gpu::KernelList& list) { add_small_kernels<Nvfp4Weights>(list, "nvfp4"); }

}  // namespace foretoken::cuda
