#include "backends/cuda/kernels/device.h"
#include "backends/cuda/kernels/kernels.h"
#include "backends/gpu/moe.inl"

namespace foretoken::cuda {

void add_moe_kernels(gpu::KernelList& list) {
  using namespace gpu;
  list.push_back(kernel_entry("moe_topk", moe_topk, kRouteThreads));
  list.push_back(kernel_entry("moe_group", moe_group, kGroupThreads));
  list.push_back(kernel_entry("moe_join", moe_join, kJoinThreads));
}

}  // namespace foretoken::cuda
