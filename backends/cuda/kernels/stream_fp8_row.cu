#include "backends/cuda/kernels/kernels.h"
#include "backends/cuda/kernels/stream_argmax.cuh"
#include "backends/cuda/kernels/stream_linear.cuh"

namespace foretoken::cuda {

void add_fp8_row_stream_kernels(gpu::KernelList& list) {
  add_stream_kernels<Fp8RowStream>(list, "fp8_row");
  add_stream_argmax_kernels<Fp8RowStream>(list, "fp8_row");
}

}  // namespace foretoken::cuda
