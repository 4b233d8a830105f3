#include "backends/cuda/kernels/async_copy.cuh"
#include "backends/cuda/kernels/kernels.h"
#include "backends/gpu/delta_net_kernels.inl"

namespace foretoken::cuda {
namespace {

using namespace gpu;

/// A head whose column blocks are shared out among the groups of a cluster, which write into each other's memory.
struct HeadCluster {
#if __CUDA_ARCH__ >= 900
  FORETOKEN_DEVICE static uint32_t rank() {
    uint32_t rank = 0;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
  }
  FORETOKEN_DEVICE static void arrive() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
  FORETOKEN_DEVICE static void wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
  FORETOKEN_DEVICE static void give(float (&squares)[kColumnBlocks][kRowBlock], uint32_t, uint32_t w, float value) {
    const auto own = static_cast<uint32_t>(__cvta_generic_to_shared(&squares[rank()][w]));
#pragma unroll
    for (uint32_t group = 0; group < kColumnBlocks; ++group) {
      uint32_t target = 0;
      asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(target) : "r"(own), "r"(group));
      asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(target), "f"(value) : "memory");
    }
  }
  FORETOKEN_DEVICE static void meet() {
    arrive();
    wait();
  }
#endif
};

__global__ void FORETOKEN_CLUSTER(kColumnBlocks) __launch_bounds__(kColumnBlockThreads)
    gated_delta_rule_cluster(const GatedDeltaRuleParams p) {
#if __CUDA_ARCH__ >= 900
  __shared__ DeltaScratch<1> scratch;
  delta_rule_rows<1, WholeHeads>(p, HeadCluster{}, scratch);
#endif
}

}  // namespace

void add_delta_cluster_kernels(gpu::KernelList& list) {
  list.push_back(kernel_entry("gated_delta_rule_cluster", gated_delta_rule_cluster, kColumnBlockThreads));
  list.back().min_architecture = 90;
}

}  // namespace foretoken::cuda
