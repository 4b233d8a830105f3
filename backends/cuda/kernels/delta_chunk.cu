#include "backends/cuda/kernels/delta_chunk.cuh"

#include "backends/cuda/kernels/kernels.h"

namespace foretoken::cuda {

void add_delta_chunk_kernels(gpu::KernelList& list) {
  gpu::KernelEntry entry = gpu::kernel_entry("delta_chunk", delta_chunk, kDeltaChunkThreads);
  entry.large_group_memory = true;
  list.push_back(entry);
  list.push_back(gpu::kernel_entry("delta_norm", delta_norm, kDeltaNormThreads));
}

}  // namespace foretoken::cuda
