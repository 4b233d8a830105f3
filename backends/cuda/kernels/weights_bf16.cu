#include "backends/cuda/kernels/device.h"
#include "backends/cuda/kernels/kernels.h"
#include "backends/gpu/weight_kernels.inl"

namespace foretoken::cuda {

void add_bf16_weight_kernels(gpu::KernelList& list) { gpu::add_weight_kernels<gpu::Bf16Format>(list, "bf16"); }

}  // namespace foretoken::cuda
