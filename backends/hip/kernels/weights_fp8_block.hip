#include "backends/hip/kernels/device.h"

#include "backends/gpu/weight_kernels.inl"

namespace foretoken::gpu {

void add_fp8_block_weight_kernels(KernelList& list) { add_weight_kernels<Fp8BlockFormat>(list, "fp8_block"); }

}  // namespace foretoken::gpu
