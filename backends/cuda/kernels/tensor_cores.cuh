// Tensor cores and asynchronous copies (sm_80 and later), as the kernels of prefill use them.
#pragma once

#include "backends/cuda/kernels/device.h"
#include "backends/gpu/numeric.inl"

namespace foretoken::cuda {
namespace {

/// Two floats as BF16, `low` in the lower half.
__device__ __forceinline__ uint32_t pack_bf16(float low, float high) {
  uint32_t packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}

/// c += a b for blocks of 16 x 16 and 16 x 8. Lane l holds of c: row l / 4 (first two), l / 4 + 8, columns l % 4 * 2 and the
/// next.
__device__ __forceinline__ void multiply(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

/// Four blocks of 8 x 8 BF16; lane l gives the address of row l % 8 of block l / 8, and gets two neighbours of row l / 4.
__device__ __forceinline__ void load_blocks(uint32_t (&blocks)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(blocks[0]), "=r"(blocks[1]), "=r"(blocks[2]), "=r"(blocks[3])
               : "r"(address)
               : "memory");
}

/// The same of the transposed blocks.
__device__ __forceinline__ void load_blocks_transposed(uint32_t (&blocks)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(blocks[0]), "=r"(blocks[1]), "=r"(blocks[2]), "=r"(blocks[3])
               : "r"(address)
               : "memory");
}

__device__ __forceinline__ void store_shared(uint32_t address, uint4 value) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(value.x), "r"(value.y), "r"(value.z), "r"(value.w)
               : "memory");
}

/// 16 bytes of global memory to shared memory, past the L1 cache.
__device__ __forceinline__ void copy_async(uint32_t shared, uint64_t global) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(shared), "l"(global) : "memory");
}
/// Ends a group of copies, which may be empty.
__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// Waits until no more than the `kPending` last groups of this thread are under way.
template <uint32_t kPending>
__device__ __forceinline__ void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

/// Byte offset of 16-byte chunk `chunk` (0 .. 7) in row `row` of a tile with rows of 128 bytes: eight rows at one column meet no
/// bank twice.
__device__ __forceinline__ uint32_t swizzled(uint32_t row, uint32_t chunk) { return row * 128 + ((chunk ^ (row & 7)) << 4); }

}  // namespace
}  // namespace foretoken::cuda
