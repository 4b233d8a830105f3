#include "backends/cuda/kernels/kernels.h"
#include "backends/cuda/kernels/stream_argmax.cuh"
#include "backends/cuda/kernels/stream_linear.cuh"

namespace foretoken::cuda {

void add_nvfp4_stream_kernels(gpu::KernelList& list) {
  add_stream_kernels<Nvfp4Stream>(list, "nvfp4");
  add_stream_argmax_kernels<Nvfp4Stream>(list, "nvfp4");
}

}  // namespace foretoken::cuda
