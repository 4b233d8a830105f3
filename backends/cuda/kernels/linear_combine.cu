#include "backends/cuda/kernels/device.h"
#include "backends/cuda/kernels/kernels.h"
#include "backends/gpu/linear_combine.inl"

namespace foretoken::cuda {

void add_linear_combine_kernels(gpu::KernelList& list) {
  list.push_back(gpu::kernel_entry("linear_argmax_combine", gpu::linear_argmax_combine, gpu::kCombineThreads));
  list.push_back(gpu::kernel_entry("linear_argmax_logits", gpu::linear_argmax_logits, gpu::kCombineThreads));
}

}  // namespace foretoken::cuda
