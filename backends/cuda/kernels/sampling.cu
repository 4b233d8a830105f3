#include "backends/cuda/kernels/device.h"
#include "backends/cuda/kernels/kernels.h"
#include "backends/gpu/sampling.inl"

namespace foretoken::cuda {

void add_sampling_kernels(gpu::KernelList& list) {
  using namespace gpu;
  list.push_back(kernel_entry("argmax", argmax, kArgmaxThreads));
  list.push_back(kernel_entry("select_tokens", select_tokens, kTokenThreads));
  list.push_back(kernel_entry("accept_drafts", accept_drafts, kTokenThreads));
  list.push_back(kernel_entry("embedding", embedding, kEmbeddingThreads));
  list.push_back(weight_maker_entry("random_fill", random_fill, kRandomThreads));
  list.push_back(kernel_entry("copy", gpu::copy, kCopyThreads));
  list.push_back(weight_maker_entry("fill", gpu::fill, kFillThreads));
}

}  // namespace foretoken::cuda
