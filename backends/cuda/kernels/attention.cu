#include "backends/cuda/kernels/device.h"
#include "backends/cuda/kernels/kernels.h"
#include "backends/gpu/attention.inl"

namespace foretoken::cuda {

void add_attention_kernels(gpu::KernelList& list) {
  using namespace gpu;
  list.push_back(kernel_entry("gated_attention_split", gated_attention_split, kAttentionThreads));
  list.push_back(kernel_entry("gated_attention_combine", gated_attention_combine, kAttentionThreads));
  list.push_back(kernel_entry("gated_attention_rows", gated_attention_rows, kAttentionThreads));
}

}  // namespace foretoken::cuda
