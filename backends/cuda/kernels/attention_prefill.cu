#include "backends/cuda/kernels/attention_prefill.cuh"

#include "backends/cuda/kernels/kernels.h"

namespace foretoken::cuda {

void add_attention_prefill_kernels(gpu::KernelList& list) {
  list.push_back(attention_prefill_entry<64>());
  list.push_back(attention_prefill_entry<128>());
  list.push_back(attention_prefill_entry<256>());
}

}  // namespace foretoken::cuda
