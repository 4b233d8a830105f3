#include "backends/cuda/kernels/device.h"
#include "backends/cuda/kernels/kernels.h"
#include "backends/gpu/weight_kernels.inl"

namespace foretoken::cuda {

void add_f32_weight_kernels(gpu::KernelList& list) { gpu::add_weight_kernels<gpu::F32Format>(list, "f32"); }

}  // namespace foretoken::cuda
