#include "backends/cuda/kernels/abs_max.cuh"
#include "backends/cuda/kernels/device.h"
#include "backends/cuda/kernels/kernels.h"
#include "backends/gpu/quantize_kernels.inl"

namespace foretoken::cuda {

void add_abs_max_kernels(gpu::KernelList& list) {
  gpu::KernelEntry bulk = gpu::kernel_entry("abs_max_bulk", abs_max_bulk, kAbsMaxBulkThreads);
  bulk.large_group_memory = true;
  bulk.min_architecture = 90;
  list.push_back(bulk);
}

}  // namespace foretoken::cuda
