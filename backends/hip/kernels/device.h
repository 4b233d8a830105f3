// What the kernels of backends/gpu need of their compiler and device, in HIP's words.
#pragma once

#include <hip/hip_fp16.h>
#include <hip/hip_runtime.h>

#include <cstddef>
#include <cstdint>

#define FORETOKEN_DEVICE __device__ __forceinline__

namespace foretoken::gpu {

/// Lanes that exchange values: a wave of 32, or either half of a wave of 64.
inline constexpr int kLanes = 32;

/// The second number of __launch_bounds__ for work groups of `threads` threads, where a multiprocessor must have registers for
/// `warps` warps: work groups, or for AMD waves of a SIMD, of which a multiprocessor has four. Waves count as 64 lanes.
#if defined(__HIP_PLATFORM_NVIDIA__)
constexpr int launch_bound(int warps, int threads) { return warps * kLanes / threads; }
#else
constexpr int launch_bound(int warps, int /*threads*/) { return warps * kLanes / 64 / 4; }
#endif

/// Memory of the device, as operands and workspaces are. A compiler that knows it to be no group memory makes loads that wait for
/// no more than they must.
template <class T>
FORETOKEN_DEVICE T* pointer(uint64_t address) {
#if defined(__HIP_PLATFORM_NVIDIA__)
  T* const memory = reinterpret_cast<T*>(address);
  __builtin_assume(__isGlobal(memory));
  return memory;
#else
  return (T*)(reinterpret_cast<__attribute__((address_space(1))) T*>(address));
#endif
}

/// HIP starts no kernel before the one in front has ended.
FORETOKEN_DEVICE void allow_next() {}
FORETOKEN_DEVICE void wait_for_previous() {}
FORETOKEN_DEVICE void begin_kernel() {}

#if defined(__HIP_PLATFORM_NVIDIA__)
FORETOKEN_DEVICE void prefetch(const void* address) { asm volatile("prefetch.global.L2 [%0];" ::"l"(address)); }
FORETOKEN_DEVICE void finish_part() {}

template <class T>
FORETOKEN_DEVICE T lane_xor(T value, int mask) {
  return __shfl_xor_sync(0xffffffffU, value, mask, kLanes);
}

template <class T>
FORETOKEN_DEVICE T lane_up(T value, uint32_t distance) {
  return __shfl_up_sync(0xffffffffU, value, distance, kLanes);
}

FORETOKEN_DEVICE uint32_t lane_ballot(bool predicate) { return __ballot_sync(0xffffffffU, predicate); }

template <uint32_t kLow, uint32_t kHigh>
FORETOKEN_DEVICE uint32_t spread_bytes(uint32_t bytes) {
  return __byte_perm(bytes, 0, kHigh << 12 | 4U << 8 | kLow << 4 | 4U);
}
#else
/// Asks for the cache line at `address`, which need not be final.
FORETOKEN_DEVICE void prefetch(const void* address) { __builtin_prefetch(address); }

/// Between parts of unrolled work that would need too many registers together: what follows is not begun before.
FORETOKEN_DEVICE void finish_part() { __builtin_amdgcn_sched_barrier(0); }

template <class T>
FORETOKEN_DEVICE T lane_xor(T value, int mask) {
  return __shfl_xor(value, mask, kLanes);
}

/// The value of the lane `distance` below; a lane's own where there is none.
template <class T>
FORETOKEN_DEVICE T lane_up(T value, uint32_t distance) {
  return __shfl_up(value, distance, kLanes);
}

/// One bit per lane: of a wave of 64, the half that the lane is in.
FORETOKEN_DEVICE uint32_t lane_ballot(bool predicate) {
  return static_cast<uint32_t>(__ballot(predicate) >> (__lane_id() & ~(kLanes - 1U)));
}

/// Byte kLow of `bytes` above a byte of zeros, and byte kHigh likewise in the upper half.
template <uint32_t kLow, uint32_t kHigh>
FORETOKEN_DEVICE uint32_t spread_bytes(uint32_t bytes) {
  constexpr uint32_t kZero = 0x0cU;
  return __builtin_amdgcn_perm(0U, bytes, kHigh << 24 | kZero << 16 | kLow << 8 | kZero);
}
#endif

using Halves = __half2;
FORETOKEN_DEVICE Halves halves_of_bits(uint32_t bits) { return *reinterpret_cast<const Halves*>(&bits); }
FORETOKEN_DEVICE Halves multiply(Halves a, Halves b) { return __hmul2(a, b); }
FORETOKEN_DEVICE Halves multiply_add(Halves a, Halves b, Halves c) { return __hfma2(a, b, c); }
FORETOKEN_DEVICE float2 to_floats(Halves halves) { return __half22float2(halves); }

}  // namespace foretoken::gpu

#include "backends/hip/kernels/decode.h"
