#include "backends/cuda/kernels/kernels.h"
#include "backends/cuda/kernels/stream_argmax.cuh"
#include "backends/cuda/kernels/stream_block_scaled.cuh"
#include "backends/cuda/kernels/stream_linear.cuh"

namespace foretoken::cuda {

void add_block_scaled_stream_kernels(gpu::KernelList& list) {
  const size_t first = list.size();
  add_stream_kernels<BlockScaledStream>(list, "block_scaled");
  add_stream_argmax_kernels<BlockScaledStream>(list, "block_scaled");
  for (size_t i = first; i < list.size(); ++i) {
    list[i].min_architecture = 120;
    list[i].family_only = true;
  }
}

}  // namespace foretoken::cuda
