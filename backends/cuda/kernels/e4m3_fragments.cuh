// E4M3 codes as FP16 operands of mma.m16n8k16, exactly.
#pragma once

#include "backends/cuda/kernels/device.h"

namespace foretoken::cuda {
namespace {

/// Two E4M3 codes as FP16, the low byte first.
FORETOKEN_DEVICE uint32_t e4m3_to_half(uint32_t codes) {
  const __half2_raw halves = __nv_cvt_fp8x2_to_halfraw2(static_cast<__nv_fp8x2_storage_t>(codes), __NV_E4M3);
  return uint32_t{halves.x} | uint32_t{halves.y} << 16;
}

/// Four of them.
FORETOKEN_DEVICE void e4m3_to_half(uint32_t codes, uint32_t& low, uint32_t& high) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 890
  asm("{\n.reg .b16 a, b;\nmov.b32 {a, b}, %2;\ncvt.rn.f16x2.e4m3x2 %0, a;\ncvt.rn.f16x2.e4m3x2 %1, b;\n}"
      : "=r"(low), "=r"(high)
      : "r"(codes));
#else
  // One bit to the right of a half's sign, exponent and mantissa are those of a half 2^8 smaller, subnormals included.
  const auto place = [](uint32_t two) {
    const uint32_t bits = (two & 0x80008000U) | (two & 0x7f007f00U) >> 1;
    const __half2 halves = __hmul2(*reinterpret_cast<const __half2*>(&bits), __half2half2(__ushort_as_half(0x5c00)));  // 2^8
    return *reinterpret_cast<const uint32_t*>(&halves);
  };
  low = place(__byte_perm(codes, 0, 0x1404));
  high = place(__byte_perm(codes, 0, 0x3424));
#endif
}

}  // namespace
}  // namespace foretoken::cuda
