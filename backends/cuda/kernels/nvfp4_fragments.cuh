// NVFP4 weights as FP16 operands of mma.m16n8k16, exactly: an E2M1 code has 2 significant bits, its E4M3 scale 4, so that their
// product is an FP16 number. Where the device has no conversion of E2M1, codes become bytes of E4M3 four at a time, and those
// become FP16 in pairs; both steps leave out a power of two, which the sums take on at the end.
#pragma once

#include "backends/cuda/kernels/e4m3_fragments.cuh"

namespace foretoken::cuda {
namespace {

#if defined(__CUDA_ARCH_FAMILY_SPECIFIC__) && __CUDA_ARCH_FAMILY_SPECIFIC__ >= 1000
#define FORETOKEN_NATIVE_E2M1
#endif

/// What every decoded weight is to be multiplied by.
#ifdef FORETOKEN_NATIVE_E2M1
constexpr float kNvfp4Factor = 1.0F;
#else
constexpr float kNvfp4Factor = 64.0F;
#endif

FORETOKEN_DEVICE uint32_t multiply_halves(uint32_t a, uint32_t b) {
  uint32_t product;
  asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(product) : "r"(a), "r"(b));
  return product;
}

/// Both halves of `group`'s scale, from a pair as e4m3_to_half gives it.
FORETOKEN_DEVICE uint32_t nvfp4_scale(uint32_t pair, uint32_t group) {
  return __byte_perm(pair, 0, group == 0 ? 0x1010 : 0x3232);
}

/// Eight codes of one group times its scale, in pairs: codes 0 and 2, 4 and 6, 1 and 3, 5 and 7, or as they come where the device
/// converts them itself. Eight elements of x, in pairs as they come, are brought into that order by nvfp4_order().
FORETOKEN_DEVICE void decode_nvfp4(uint32_t codes, uint32_t scale, uint32_t (&pairs)[4]) {
#ifdef FORETOKEN_NATIVE_E2M1
#pragma unroll
  for (uint32_t i = 0; i < 4; ++i) {
    const __half2_raw halves = __nv_cvt_fp4x2_to_halfraw2(static_cast<__nv_fp4x2_storage_t>(codes >> (8 * i)), __NV_E2M1);
    pairs[i] = uint32_t{halves.x} | uint32_t{halves.y} << 16;
  }
#else
  // The exponent of E2M1 in the low bits of that of E4M3: 2^-6 of the value, subnormal numbers too.
  constexpr uint32_t kSign = 0x80808080U;
  constexpr uint32_t kMagnitude = 0x1c1c1c1cU;
  const uint32_t even = (codes << 4 & kSign) | (codes << 2 & kMagnitude);
  const uint32_t odd = (codes & kSign) | (codes >> 2 & kMagnitude);
  e4m3_to_half(even, pairs[0], pairs[1]);
  e4m3_to_half(odd, pairs[2], pairs[3]);
#endif
#pragma unroll
  for (uint32_t i = 0; i < 4; ++i) pairs[i] = multiply_halves(pairs[i], scale);
}

FORETOKEN_DEVICE uint4 nvfp4_order(const uint4& eight) {
#ifdef FORETOKEN_NATIVE_E2M1
  return eight;
#else
  return make_uint4(__byte_perm(eight.x, eight.y, 0x5410), __byte_perm(eight.z, eight.w, 0x5410),
                    __byte_perm(eight.x, eight.y, 0x7632), __byte_perm(eight.z, eight.w, 0x7632));
#endif
}

#undef FORETOKEN_NATIVE_E2M1

}  // namespace
}  // namespace foretoken::cuda
