#include "backends/hip/kernels/device.h"

#include "backends/gpu/weight_kernels.inl"

namespace foretoken::gpu {

void add_bf16_weight_kernels(KernelList& list) { add_weight_kernels<Bf16Format>(list, "bf16"); }

}  // namespace foretoken::gpu
