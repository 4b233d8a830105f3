#include "backends/cuda/kernels/prefill.cuh"

#include "backends/cuda/kernels/kernels.h"

namespace foretoken::cuda {

void add_prefill_kernels(gpu::KernelList& list) {
  add_prefill_kernels<gpu::Bf16Format>(list, "bf16");
  add_prefill_kernels<gpu::Fp8RowFormat>(list, "fp8_row");
  add_prefill_kernels<gpu::Fp8BlockFormat>(list, "fp8_block");
  add_prefill_kernels<gpu::Nvfp4Format>(list, "nvfp4");
}

}  // namespace foretoken::cuda
