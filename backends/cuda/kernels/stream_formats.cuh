// How the streaming kernels read each weight format: the shape of its kernels, 16 bytes of a row's codes as operands of
// mma.m16n8k16, and their scales.
#pragma once

#include "backends/cuda/kernels/stream.cuh"

namespace foretoken::cuda {
namespace {

/// The scales of one piece (16 bytes of codes) that decode() applies: none.
struct NoPieceScales {};

/// The factors of a slice of a lane's two rows: always 1.
struct NoInnerScales {
  FORETOKEN_DEVICE float2 load(uint32_t /*slice*/) const { return make_float2(1.0F, 1.0F); }
};

/// What formats without scales among the codes have in common.
struct PlainStream {
  FORETOKEN_DEVICE static NoPieceScales piece_scales(const uint8_t* /*scales*/, uint32_t /*piece*/) { return {}; }
  FORETOKEN_DEVICE static NoInnerScales inner_scales(const StreamParams& /*p*/, WeightRow /*low*/, WeightRow /*high*/,
                                                     uint32_t /*first_slice*/) {
    return {};
  }
  FORETOKEN_DEVICE static float outer_scale(const gpu::WeightParams& /*w*/, uint32_t /*row*/) { return 1.0F; }
  /// The order of eight consecutive activations that decode() pairs with.
  FORETOKEN_DEVICE static uint4 arrange(const uint4& x) { return x; }
};

struct Bf16Stream : PlainStream {
  static constexpr StreamShape kShape = kStreamBf16;
  FORETOKEN_DEVICE static void decode(const uint4& codes, NoPieceScales /*scales*/, uint32_t /*part*/, uint32_t (&pairs)[4]) {
    pairs[0] = codes.x;
    pairs[1] = codes.y;
    pairs[2] = codes.z;
    pairs[3] = codes.w;
  }
};

/// Four E4M3 codes as FP16, exactly.
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

struct Fp8Stream : PlainStream {
  static constexpr StreamShape kShape = kStreamFp8;
  FORETOKEN_DEVICE static void decode(const uint4& codes, NoPieceScales /*scales*/, uint32_t part, uint32_t (&pairs)[4]) {
    e4m3_to_half(part == 0 ? codes.x : codes.z, pairs[0], pairs[1]);
    e4m3_to_half(part == 0 ? codes.y : codes.w, pairs[2], pairs[3]);
  }
};

struct Fp8RowStream : Fp8Stream {
  FORETOKEN_DEVICE static float outer_scale(const gpu::WeightParams& w, uint32_t row) {
    return gpu::load_float(w.scale, uint64_t{row} * w.scale_columns, w.scale_is_bf16 != 0);
  }
};

/// A slice is as long as a block, 128 elements, so its scale is a factor of its sum.
struct Fp8BlockStream : Fp8Stream {
  struct InnerScales {
    uint64_t scale[2];
    uint64_t index[2];
    bool is_bf16[2];

    FORETOKEN_DEVICE float2 load(uint32_t slice) const {
      return make_float2(gpu::load_float(scale[0], index[0] + slice, is_bf16[0]),
                         gpu::load_float(scale[1], index[1] + slice, is_bf16[1]));
    }
  };
  FORETOKEN_DEVICE static InnerScales inner_scales(const StreamParams& p, WeightRow low, WeightRow high, uint32_t first_slice) {
    InnerScales scales;
    const WeightRow rows[2] = {low, high};
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const gpu::WeightParams& w = p.part[rows[i].part].weight;
      scales.scale[i] = w.scale;
      scales.index[i] = uint64_t{rows[i].row >> w.block_shift} * w.scale_columns + first_slice;
      scales.is_bf16[i] = w.scale_is_bf16 != 0;
    }
    return scales;
  }
};

/// The format in clusters of work groups.
template <class Format>
struct InClusters : Format {
  static constexpr StreamShape kShape = in_clusters(Format::kShape);
};

}  // namespace
}  // namespace foretoken::cuda
