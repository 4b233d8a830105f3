// What the kernels of backends/gpu need of their compiler and device, in CUDA's words.
#pragma once

#include <cuda_fp16.h>
#include <cuda_fp4.h>
#include <cuda_fp8.h>

#include <cstddef>
#include <cstdint>

#define FORETOKEN_DEVICE __device__ __forceinline__

namespace foretoken::gpu {

/// Lanes that exchange values: a warp.
inline constexpr int kLanes = 32;

/// The second number of __launch_bounds__ for work groups of `threads` threads, where a multiprocessor must have registers for
/// `warps` warps: work groups.
constexpr int launch_bound(int warps, int threads) { return warps * kLanes / threads; }

/// Memory of the device, as operands and workspaces are.
template <class T>
FORETOKEN_DEVICE T* pointer(uint64_t address) {
  return reinterpret_cast<T*>(address);
}

/// Lets the next kernel be launched while this one runs: it starts with what needs no result of this one.
FORETOKEN_DEVICE void allow_next() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/// Waits for what the kernels before wrote. Until then a kernel may read its parameters, and memory that no kernel of the step
/// writes: weights. Every thread calls it.
FORETOKEN_DEVICE void wait_for_previous() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/// First statement of a kernel that has nothing to do before.
FORETOKEN_DEVICE void begin_kernel() {
  allow_next();
  wait_for_previous();
}

/// Asks for the cache line at `address`, which need not be final.
FORETOKEN_DEVICE void prefetch(const void* address) { asm volatile("prefetch.global.L2 [%0];" ::"l"(address)); }

/// Between parts of unrolled work that would need too many registers together; this compiler sees to that by itself.
FORETOKEN_DEVICE void finish_part() {}

template <class T>
FORETOKEN_DEVICE T lane_xor(T value, int mask) {
  return __shfl_xor_sync(0xffffffffU, value, mask, kLanes);
}

/// The value of the lane `distance` below; a lane's own where there is none.
template <class T>
FORETOKEN_DEVICE T lane_up(T value, uint32_t distance) {
  return __shfl_up_sync(0xffffffffU, value, distance, kLanes);
}

/// One bit per lane.
FORETOKEN_DEVICE uint32_t lane_ballot(bool predicate) { return __ballot_sync(0xffffffffU, predicate); }

FORETOKEN_DEVICE float2 halves_to_floats(const __half2_raw& halves) { return __half22float2(__half2(halves)); }

/// Two E4M3 codes, the low byte first.
FORETOKEN_DEVICE float2 decode_e4m3x2(uint32_t codes) {
  return __half22float2(__half2(__nv_cvt_fp8x2_to_halfraw2(static_cast<__nv_fp8x2_storage_t>(codes), __NV_E4M3)));
}

/// What decode_weights divides codes by: it gives their values.
inline constexpr float kE4m3Divisor = 1.0F;
inline constexpr float kE2m1Divisor = 1.0F;

/// Two E4M3 codes of a weight, the low byte first.
FORETOKEN_DEVICE void decode_weights(uint32_t codes, float (&values)[2]) {
  const float2 two = decode_e4m3x2(codes);
  values[0] = two.x;
  values[1] = two.y;
}

/// Four E4M3 codes of a weight, the low byte first.
FORETOKEN_DEVICE void decode_weights(uint32_t codes, float (&values)[4]) {
#pragma unroll
  for (int pair = 0; pair < 2; ++pair) {
    const float2 two = decode_e4m3x2(codes >> (16 * pair) & 0xffffU);
    values[2 * pair] = two.x;
    values[2 * pair + 1] = two.y;
  }
}

/// Eight E2M1 codes, the low nibble first.
FORETOKEN_DEVICE void decode_e2m1x8(uint32_t codes, float (&values)[8]) {
#if defined(__CUDA_ARCH_FEAT_SM100_ALL) || defined(__CUDA_ARCH_FEAT_SM120_ALL) || \
    (defined(__CUDA_ARCH_FAMILY_SPECIFIC__) && __CUDA_ARCH_FAMILY_SPECIFIC__ >= 1000)
  for (int pair = 0; pair < 4; ++pair) {
    const auto byte = static_cast<__nv_fp4x2_storage_t>(codes >> (8 * pair));
    const float2 two = __half22float2(__half2(__nv_cvt_fp4x2_to_halfraw2(byte, __NV_E2M1)));
    values[2 * pair] = two.x;
    values[2 * pair + 1] = two.y;
  }
#else
  // Placed at the top of a half's mantissa and the bottom of its exponent, a code is its value times 2^-14.
  const __half2 factor = __half2half2(__ushort_as_half(0x7400));  // 2^14
  for (int nibble = 0; nibble < 4; ++nibble) {
    const uint32_t two = codes >> (4 * nibble);  // codes `nibble` and `nibble + 4`
    const uint32_t bits = (two & 0x00070007U) << 9 | (two & 0x00080008U) << 12;
    const float2 pair = __half22float2(__hmul2(*reinterpret_cast<const __half2*>(&bits), factor));
    values[nibble] = pair.x;
    values[nibble + 4] = pair.y;
  }
#endif
}

/// Eight E2M1 codes of a weight, the low nibble first.
FORETOKEN_DEVICE void decode_weights(uint32_t codes, float (&values)[8]) { decode_e2m1x8(codes, values); }

}  // namespace foretoken::gpu
