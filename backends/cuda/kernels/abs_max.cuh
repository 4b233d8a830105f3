// abs_max as fast as memory can be read: each warp keeps a ring of bulk copies under way (sm_90 and later).
#pragma once

#include "backends/cuda/kernels/abs_max_params.h"
#include "backends/cuda/kernels/async_copy.cuh"
#include "backends/gpu/numeric.inl"

namespace foretoken::cuda {
namespace {

/// What one warp reads: chunks `first`, first + `step`, ... of the source.
struct AbsMaxShare {
  uint64_t first;
  uint64_t step;
  uint32_t ring;    // shared memory
  Barrier* filled;  // one per stage
};

FORETOKEN_DEVICE uint32_t chunk_bytes(const AbsMaxBulkParams& p, uint64_t chunk) {
  const uint64_t left = p.num_bytes - chunk * kAbsMaxBulkChunk;
  return left < kAbsMaxBulkChunk ? static_cast<uint32_t>(left) : kAbsMaxBulkChunk;
}

/// By one lane.
FORETOKEN_DEVICE void fill_stage(const AbsMaxBulkParams& p, const AbsMaxShare& share, uint32_t stage, uint64_t chunk,
                                 uint64_t policy) {
  const uint32_t bytes = chunk_bytes(p, chunk);
  share.filled[stage].arrive_expecting(bytes);
  copy_bulk(share.ring + stage * kAbsMaxBulkChunk, p.x + chunk * kAbsMaxBulkChunk, bytes, share.filled[stage], policy);
}

/// Magnitudes are unsigned integers in the order of their values: two BF16 in a word, or one F32.
template <bool kIsBf16>
FORETOKEN_DEVICE uint32_t larger_magnitudes(uint32_t largest, uint32_t word) {
  if constexpr (kIsBf16) return __vmaxu2(largest, word & 0x7fff7fffU);
  const uint32_t magnitude = word & 0x7fffffffU;
  return largest > magnitude ? largest : magnitude;
}

FORETOKEN_DEVICE uint4 load_shared(uint32_t address) {
  uint4 value;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "r"(address)
               : "memory");
  return value;
}

/// The largest magnitude of the warp's share, as bits of a float32; every lane gets it.
template <bool kIsBf16>
FORETOKEN_DEVICE uint32_t largest_of_share(const AbsMaxBulkParams& p, const AbsMaxShare& share) {
  const uint32_t lane = threadIdx.x % gpu::kLanes;
  const uint64_t num_chunks = (p.num_bytes + kAbsMaxBulkChunk - 1) / kAbsMaxBulkChunk;
  const uint64_t policy = evict_first_policy();
  for (uint32_t stage = 0; stage < p.num_stages && lane == 0; ++stage) {
    const uint64_t chunk = share.first + stage * share.step;
    if (chunk < num_chunks) fill_stage(p, share, stage, chunk, policy);
  }
  uint32_t largest[4] = {};
  uint32_t stage = 0;
  uint32_t parity = 0;
  for (uint64_t chunk = share.first; chunk < num_chunks; chunk += share.step) {
    share.filled[stage].wait(parity);
    const uint32_t bytes = chunk_bytes(p, chunk);
#pragma unroll
    for (uint32_t offset = 0; offset < kAbsMaxBulkChunk; offset += gpu::kLanes * sizeof(uint4)) {
      const uint32_t at = offset + lane * sizeof(uint4);
      const uint4 words = at < bytes ? load_shared(share.ring + stage * kAbsMaxBulkChunk + at) : make_uint4(0, 0, 0, 0);
      largest[0] = larger_magnitudes<kIsBf16>(largest[0], words.x);
      largest[1] = larger_magnitudes<kIsBf16>(largest[1], words.y);
      largest[2] = larger_magnitudes<kIsBf16>(largest[2], words.z);
      largest[3] = larger_magnitudes<kIsBf16>(largest[3], words.w);
    }
    __syncwarp();  // the stage is read before it is filled again
    const uint64_t next = chunk + p.num_stages * share.step;
    if (lane == 0 && next < num_chunks) fill_stage(p, share, stage, next, policy);
    if (++stage == p.num_stages) {
      stage = 0;
      parity ^= 1;
    }
  }
  for (int i = 1; i < 4; ++i) largest[0] = larger_magnitudes<kIsBf16>(largest[0], largest[i]);
  if constexpr (kIsBf16) largest[0] = larger_magnitudes<false>(largest[0] << 16, largest[0] & 0xffff0000U);
#if __CUDA_ARCH__ >= 800
  return __reduce_max_sync(0xffffffffU, largest[0]);
#else
  return largest[0];
#endif
}

__global__ void __launch_bounds__(kAbsMaxBulkThreads) abs_max_bulk(const AbsMaxBulkParams p) {
  extern __shared__ uint4 abs_max_ring[];
  __shared__ Barrier filled[kAbsMaxBulkWarps * kAbsMaxBulkStages];
  __shared__ uint32_t largest[kAbsMaxBulkWarps];
  const uint32_t warp = threadIdx.x / gpu::kLanes;
  gpu::allow_next();
  if (threadIdx.x < kAbsMaxBulkWarps * kAbsMaxBulkStages) filled[threadIdx.x].init(1);
  publish_barriers();
  __syncthreads();
  gpu::wait_for_previous();

  const AbsMaxShare share{.first = uint64_t{blockIdx.x} * kAbsMaxBulkWarps + warp,
                          .step = uint64_t{gridDim.x} * kAbsMaxBulkWarps,
                          .ring = shared_address(abs_max_ring) + warp * p.num_stages * kAbsMaxBulkChunk,
                          .filled = filled + warp * kAbsMaxBulkStages};
  largest[warp] = p.is_bf16 != 0 ? largest_of_share<true>(p, share) : largest_of_share<false>(p, share);
  __syncthreads();
  if (threadIdx.x != 0) return;
  uint32_t result = 0;
  for (const uint32_t value : largest) result = larger_magnitudes<false>(result, value);
  gpu::pointer<uint32_t>(p.partial)[blockIdx.x] = result;
}

}  // namespace
}  // namespace foretoken::cuda
