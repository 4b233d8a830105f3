#include "backends/cuda/kernels/kernels.h"
#include "backends/cuda/kernels/stream_argmax.cuh"
#include "backends/cuda/kernels/stream_linear.cuh"

namespace foretoken::cuda {

void add_bf16_stream_kernels(gpu::KernelList& list) {
  add_stream_kernels<Bf16Stream>(list, "bf16");
  add_stream_argmax_kernels<Bf16Stream>(list, "bf16");
}

}  // namespace foretoken::cuda
