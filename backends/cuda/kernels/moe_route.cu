// moe_route for a few rows in one launch of one work group.
#include "backends/cuda/kernels/moe_route.cuh"

#include "backends/cuda/kernels/kernels.h"

namespace foretoken::cuda {
namespace {

__global__ void __launch_bounds__(kRouteFewThreads) moe_route_few(const MoeRouteFewParams p) {
  __shared__ Picks picks;
  gpu::begin_kernel();
  constexpr uint32_t kLaneExperts = kRouteFewExperts / kLanes;
  pick_experts<kLaneExperts>(p, picks);
  write_plan(p, picks);
  write_picks<kLaneExperts>(p, picks);
}

}  // namespace

void add_moe_route_kernels(gpu::KernelList& list) {
  list.push_back(gpu::kernel_entry("moe_route_few", moe_route_few, kRouteFewThreads));
}

}  // namespace foretoken::cuda
