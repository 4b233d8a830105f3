#include "backends/cuda/kernels/device.h"
#include "backends/cuda/kernels/kernels.h"
#include "backends/gpu/weight_kernels.inl"

namespace foretoken::cuda {

void add_nvfp4_weight_kernels(gpu::KernelList& list) { gpu::add_weight_kernels<gpu::Nvfp4Format>(list, "nvfp4"); }

}  // namespace foretoken::cuda
