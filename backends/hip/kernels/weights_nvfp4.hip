#include "backends/hip/kernels/device.h"

#include "backends/gpu/weight_kernels.inl"

namespace foretoken::gpu {

void add_nvfp4_weight_kernels(KernelList& list) { add_weight_kernels<Nvfp4Format>(list, "nvfp4"); }

}  // namespace foretoken::gpu
