#include "backends/cuda/kernels/kernels.h"
#include "backends/cuda/kernels/stream_argmax.cuh"
#include "backends/cuda/kernels/stream_linear.cuh"

namespace foretoken::cuda {

void add_fp8_block_stream_kernels(gpu::KernelList& list) {
  add_stream_kernels<Fp8BlockStream>(list, "fp8_block");
  add_stream_argmax_kernels<Fp8BlockStream>(list, "fp8_block");
}

}  // namespace foretoken::cuda
