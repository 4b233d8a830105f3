// The instructions that multiply matrices, where the compiled architecture has them: then FORETOKEN_MATRIX_INSTRUCTIONS is
// defined, and Matrix is their layout. Included after device.h.
#pragma once

#include "backends/hip/kernels/matrix_layouts.h"

#if defined(__HIP_PLATFORM_NVIDIA__)
#if defined(__CUDA_ARCH__)
#define FORETOKEN_MATRIX_INSTRUCTIONS
#endif
#elif defined(__gfx90a__) || defined(__gfx940__) || defined(__gfx941__) || defined(__gfx942__) || defined(__gfx950__) || \
    defined(__gfx9_4_generic__)
#define FORETOKEN_MATRIX_INSTRUCTIONS
#define FORETOKEN_MFMA
#elif defined(__GFX11__)
#define FORETOKEN_MATRIX_INSTRUCTIONS
#define FORETOKEN_WMMA
#elif defined(__gfx1200__) || defined(__gfx1201__) || defined(__gfx12_generic__)
#define FORETOKEN_MATRIX_INSTRUCTIONS
#define FORETOKEN_SPLIT_WMMA
#endif

#if defined(FORETOKEN_MATRIX_INSTRUCTIONS)
namespace foretoken::hip {

#if defined(__HIP_PLATFORM_NVIDIA__)
using Matrix = MmaLayout;
using Chunk = uint4;  // kChunkElements of BF16

/// What a lane holds of one operand in one step.
struct MatrixOperand {
  Chunk chunk[Matrix::kChunks];
};

FORETOKEN_DEVICE void multiply_half(float* sums, uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

/// sums += a b^T for one step of two blocks.
FORETOKEN_DEVICE void multiply_step(float (&sums)[Matrix::kResults], const MatrixOperand& a, const MatrixOperand& b) {
#pragma unroll
  for (uint32_t half = 0; half < 2; ++half) {
    const Chunk column = b.chunk[half];
    multiply_half(sums + half * 4, a.chunk[0].x, a.chunk[1].x, a.chunk[0].y, a.chunk[1].y, column.x, column.y);
    multiply_half(sums + half * 4, a.chunk[0].z, a.chunk[1].z, a.chunk[0].w, a.chunk[1].w, column.z, column.w);
  }
}
#else
template <int n>
using Floats = float __attribute__((ext_vector_type(n)));
template <int n>
using Bf16Codes = short __attribute__((ext_vector_type(n)));

#if defined(FORETOKEN_MFMA)
using Matrix = MfmaLayout;
#elif defined(FORETOKEN_WMMA)
using Matrix = WmmaLayout;
#else
using Matrix = SplitWmmaLayout;
#endif
using Chunk = uint32_t __attribute__((ext_vector_type(4)));  // kChunkElements of BF16

/// What a lane holds of one operand in one step.
struct MatrixOperand {
  Chunk chunk[Matrix::kChunks];
};

/// sums += a b^T for one step of two blocks.
FORETOKEN_DEVICE void multiply_step(float (&sums)[Matrix::kResults], const MatrixOperand& a, const MatrixOperand& b) {
  auto& results = reinterpret_cast<Floats<Matrix::kResults>&>(sums);
  constexpr int kCodes = int{Matrix::kChunks * kChunkElements};
  const auto codes_a = __builtin_bit_cast(Bf16Codes<kCodes>, a);
  const auto codes_b = __builtin_bit_cast(Bf16Codes<kCodes>, b);
#if defined(FORETOKEN_MFMA)
  results = __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(codes_a.lo, codes_b.lo, results, 0, 0, 0);
  results = __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(codes_a.hi, codes_b.hi, results, 0, 0, 0);
#elif defined(FORETOKEN_WMMA)
  results = __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(codes_a, codes_b, results);
#else
  results = __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12(codes_a, codes_b, results);
#endif
}
#endif

}  // namespace foretoken::hip
#endif
