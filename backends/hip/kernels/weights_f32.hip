#include "backends/hip/kernels/device.h"

#include "backends/gpu/weight_kernels.inl"

namespace foretoken::gpu {

void add_f32_weight_kernels(KernelList& list) { add_weight_kernels<F32Format>(list, "f32"); }

}  // namespace foretoken::gpu
