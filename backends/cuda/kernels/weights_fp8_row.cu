#include "backends/cuda/kernels/device.h"
#include "backends/cuda/kernels/kernels.h"
#include "backends/gpu/weight_kernels.inl"

namespace foretoken::cuda {

void add_fp8_row_weight_kernels(gpu::KernelList& list) { gpu::add_weight_kernels<gpu::Fp8RowFormat>(list, "fp8_row"); }

}  // namespace foretoken::cuda
