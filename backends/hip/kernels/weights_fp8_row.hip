#include "backends/hip/kernels/device.h"

#include "backends/gpu/weight_kernels.inl"

namespace foretoken::gpu {

void add_fp8_row_weight_kernels(KernelList& list) { add_weight_kernels<Fp8RowFormat>(list, "fp8_row"); }

}  // namespace foretoken::gpu
