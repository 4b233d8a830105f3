// Barriers in shared memory, and copies into it that complete on them: bulk copies from sm_90 on, 16 bytes at a time before.
#pragma once

#include "backends/cuda/kernels/device.h"

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
#define FORETOKEN_SM90(...)
#define FORETOKEN_CLUSTER(size)
#else
#define FORETOKEN_SM90(...) asm volatile(__VA_ARGS__)
#define FORETOKEN_CLUSTER(size) __cluster_dims__(size, 1, 1)
#endif

namespace foretoken::cuda {

/// Whether bulk copies and clusters exist; what needs them does nothing where they do not, and is not called there.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
inline constexpr bool kBulkCopies = false;
#else
inline constexpr bool kBulkCopies = true;
#endif

FORETOKEN_DEVICE uint32_t shared_address(const void* pointer) { return static_cast<uint32_t>(__cvta_generic_to_shared(pointer)); }

/// What a warp counts for where it arrives as one. One lane arrives for all, in the order that __syncwarp() gives their accesses;
/// `racecheck` follows arrivals of each thread only, so a build for it lets every lane arrive.
#ifdef FORETOKEN_CUDA_RACECHECK
inline constexpr uint32_t kWarpArrivals = gpu::kLanes;
#else
inline constexpr uint32_t kWarpArrivals = 1;
#endif

/// A barrier of a work group, in shared memory: a phase ends when its arrivals were made and all announced bytes have come.
class Barrier {
 public:
  /// Before any other use, by one thread; publish_barriers() and a synchronisation of the threads must follow.
  FORETOKEN_DEVICE void init(uint32_t arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(address()), "r"(arrivals) : "memory");
  }
  FORETOKEN_DEVICE void arrive() {
    asm volatile("{\n.reg .b64 state;\nmbarrier.arrive.shared::cta.b64 state, [%0];\n}" ::"r"(address()) : "memory");
  }
  /// Arrives once this thread's 16-byte copies are complete.
  FORETOKEN_DEVICE void arrive_after_copies() {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(address()) : "memory");
  }
  /// Arrives and announces `bytes` of bulk copies.
  FORETOKEN_DEVICE void arrive_expecting(uint32_t bytes) {
    FORETOKEN_SM90("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address()), "r"(bytes) : "memory");
  }
  /// Arrives at the barrier in the same place of work group `rank` of the cluster.
  FORETOKEN_DEVICE void arrive_at(uint32_t rank) {
    FORETOKEN_SM90(
        "{\n.reg .b32 a;\nmapa.shared::cluster.u32 a, %0, %1;\nmbarrier.arrive.release.cluster.shared::cluster.b64 _, [a];\n}" ::
            "r"(address()),
        "r"(rank)
        : "memory");
  }

  /// kWarpArrivals of a warp, after what its lanes read and wrote before. All of its lanes call it.
  FORETOKEN_DEVICE void arrive_as_warp() {
    __syncwarp();
    if (threadIdx.x % gpu::kLanes < kWarpArrivals) arrive();
  }
  /// Likewise at the barrier in the same place of work group `rank`.
  FORETOKEN_DEVICE void arrive_as_warp_at(uint32_t rank) {
    __syncwarp();
    if (threadIdx.x % gpu::kLanes < kWarpArrivals) arrive_at(rank);
  }

  /// Returns when the phase of this parity is over: phases are 0, 1, 0, ... from the first on. Waiting for 1 on a new barrier
  /// returns at once.
  FORETOKEN_DEVICE void wait(uint32_t parity) const {
    while (!is_over(parity)) {
    }
  }
  /// Likewise where the whole cluster arrives.
  FORETOKEN_DEVICE void wait_for_cluster(uint32_t parity) const {
    uint32_t over = 0;
    while (kBulkCopies && over == 0) {
      FORETOKEN_SM90(
          "{\n.reg .pred p;\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
          : "=r"(over)
          : "r"(address()), "r"(parity)
          : "memory");
    }
  }
  [[nodiscard]] FORETOKEN_DEVICE uint32_t address() const { return shared_address(&state_); }

 private:
  [[nodiscard]] FORETOKEN_DEVICE bool is_over(uint32_t parity) const {
    uint32_t over = 0;
#if __CUDA_ARCH__ >= 900
    asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
                 : "=r"(over)
                 : "r"(address()), "r"(parity)
                 : "memory");
#else
    asm volatile("{\n.reg .pred p;\nmbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
                 : "=r"(over)
                 : "r"(address()), "r"(parity)
                 : "memory");
#endif
    return over != 0;
  }

  uint64_t state_;
};

/// Makes initialised barriers known to the copy engine and to the cluster; a synchronisation of the threads must follow.
FORETOKEN_DEVICE void publish_barriers() { FORETOKEN_SM90("fence.mbarrier_init.release.cluster;" ::: "memory"); }

/// For copy_bulk: L2 keeps what was read so only while there is room.
FORETOKEN_DEVICE uint64_t evict_first_policy() {
  uint64_t policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

/// Copies a multiple of 16 bytes into shared memory, all at multiples of 16; they count for the phase of `barrier`.
FORETOKEN_DEVICE void copy_bulk(uint32_t destination, uint64_t source, uint32_t bytes, const Barrier& barrier, uint64_t policy) {
  FORETOKEN_SM90(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::"r"(
          destination),
      "l"(source), "r"(bytes), "r"(barrier.address()), "l"(policy)
      : "memory");
}

/// Copies 16 bytes into shared memory, past the first-level cache.
FORETOKEN_DEVICE void copy_16(uint32_t destination, uint64_t source) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(destination), "l"(source) : "memory");
}
/// Ends a group of this thread's 16-byte copies, which may be empty.
FORETOKEN_DEVICE void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// Waits for this thread's groups but the last kLeft.
template <int kLeft>
FORETOKEN_DEVICE void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
}

/// Copies one segment of `bytes` per lane that has one; all lanes call it.
FORETOKEN_DEVICE void copy_segments(uint32_t destination, uint64_t source, uint32_t bytes, bool exists, const Barrier& barrier,
                                    uint64_t policy) {
  if constexpr (kBulkCopies) {
    if (exists) copy_bulk(destination, source, bytes, barrier, policy);
  } else {
    const uint32_t lane = threadIdx.x % gpu::kLanes;
    for (uint32_t lanes = gpu::lane_ballot(exists); lanes != 0; lanes &= lanes - 1) {
      const int owner = __ffs(static_cast<int>(lanes)) - 1;
      const uint32_t to = __shfl_sync(0xffffffffU, destination, owner);
      const uint64_t from = __shfl_sync(0xffffffffU, source, owner);
      for (uint32_t byte = lane * 16; byte < bytes; byte += gpu::kLanes * 16) copy_16(to + byte, from + byte);
    }
  }
}

/// Which work group of its cluster this is.
FORETOKEN_DEVICE uint32_t cluster_rank() {
  uint32_t rank = 0;
  FORETOKEN_SM90("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
/// Waits until every thread of the cluster has come here.
FORETOKEN_DEVICE void synchronize_cluster() {
  FORETOKEN_SM90("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}
/// Stores in the shared memory of work group `rank`, at the place that is `address` in this one's.
FORETOKEN_DEVICE void store_at(uint32_t rank, uint32_t address, float4 value) {
  FORETOKEN_SM90(
      "{\n.reg .b32 a;\nmapa.shared::cluster.u32 a, %0, %1;\nst.shared::cluster.v4.f32 [a], {%2, %3, %4, %5};\n}" ::"r"(address),
      "r"(rank), "f"(value.x), "f"(value.y), "f"(value.z), "f"(value.w)
      : "memory");
}

}  // namespace foretoken::cuda
