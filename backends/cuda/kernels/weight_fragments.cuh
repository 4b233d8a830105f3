// Weights of every format as BF16 operands of mma.m16n8k16, exactly: an E4M3 code has 4 significant bits, an E2M1 code times its
// E4M3 scale has 6. A lane takes 16 bytes of codes of one weight row and the same elements of its row of x. K is thereby permuted
// in both alike, so that neither needs an exchange between lanes.
#pragma once

#include "backends/cuda/kernels/async_copy.cuh"
#include "backends/gpu/weight_formats.inl"

namespace foretoken::cuda {
namespace {

using gpu::WeightParams;

/// Bytes of a weight row that a warp multiplies at a time: each lane 16 of either half.
constexpr uint32_t kUnitBytes = 128;
constexpr uint32_t kHalfBytes = kUnitBytes / 2;
/// Weight rows of a tile, one per group of four lanes.
constexpr uint32_t kTileRows = 8;

// Loads of weights, which no kernel of the step writes, stay where they are written, also before wait_for_previous(). What does
// not exist is zero. A branch in the kernel would keep them from being under way together.

__device__ __forceinline__ uint4 load_weights(uint64_t address, bool exists, uint64_t policy) {
  uint4 codes;
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.u32 p, %5, 0;\nmov.u32 %0, 0;\nmov.u32 %1, 0;\nmov.u32 %2, 0;\nmov.u32 %3, 0;\n"
      "@p ld.global.L1::no_allocate.L2::cache_hint.L2::256B.v4.u32 {%0, %1, %2, %3}, [%4], %6;\n}"
      : "=&r"(codes.x), "=&r"(codes.y), "=&r"(codes.z), "=&r"(codes.w)
      : "l"(address), "r"(uint32_t{exists}), "l"(policy));
  return codes;
}
__device__ __forceinline__ uint32_t load_weights_16(uint64_t address, bool exists) {
  uint16_t value;
  asm volatile("{\n.reg .pred p;\nsetp.ne.u32 p, %2, 0;\nmov.u16 %0, 0;\n@p ld.global.u16 %0, [%1];\n}"
               : "=&h"(value)
               : "l"(address), "r"(uint32_t{exists}));
  return value;
}
__device__ __forceinline__ uint32_t load_weights_32(uint64_t address, bool exists) {
  uint32_t value;
  asm volatile("{\n.reg .pred p;\nsetp.ne.u32 p, %2, 0;\nmov.u32 %0, 0;\n@p ld.global.u32 %0, [%1];\n}"
               : "=&r"(value)
               : "l"(address), "r"(uint32_t{exists}));
  return value;
}
/// 16 bytes that a kernel before may have written.
__device__ __forceinline__ uint4 load_activations(uint64_t address, bool exists) {
  uint4 eight;
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.u32 p, %5, 0;\nmov.u32 %0, 0;\nmov.u32 %1, 0;\nmov.u32 %2, 0;\nmov.u32 %3, 0;\n"
      "@p ld.global.v4.u32 {%0, %1, %2, %3}, [%4];\n}"
      : "=&r"(eight.x), "=&r"(eight.y), "=&r"(eight.z), "=&r"(eight.w)
      : "l"(address), "r"(uint32_t{exists})
      : "memory");
  return eight;
}

/// A scale that may be float32 or BF16.
__device__ __forceinline__ float load_scale(uint64_t base, uint64_t index, bool is_bf16, bool exists) {
  const uint32_t narrow = load_weights_16(base + index * 2, exists && is_bf16);
  const uint32_t wide = load_weights_32(base + index * 4, exists && !is_bf16);
  return gpu::bits_to_float(narrow << 16 | wide);
}

/// sums += a b for 16 rows of x (a: rows lane / 4 and lane / 4 + 8) and 8 weight rows (b) over 16 elements of K.
__device__ __forceinline__ void multiply_bf16(float (&sums)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// Products of BF16 pairs, rounded to nearest; subnormals count. (sm_80 has no plain multiplication of BF16.)
__device__ __forceinline__ uint32_t multiply_pair(uint32_t a, uint32_t b) {
  uint32_t product;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(product) : "r"(a), "r"(b), "r"(0x80008000U));
  return product;
}

/// Which rows of a matrix a lane reads: one of the tile's eight for its codes (its group of four lanes), and the one whose block
/// scales its two columns of the result have.
struct LaneRows {
  uint32_t codes;
  uint32_t sums;
};

/// The scales of a format that has none inside.
struct NoScales {
  __device__ __forceinline__ void load(const WeightParams& /*w*/, uint64_t /*row*/, uint32_t /*unit*/, bool /*exists*/,
                                       const bool (&/*has*/)[2]) {}
};

struct Bf16Weights {
  using Format = gpu::Bf16Format;
  using Scales = NoScales;                    // of one unit
  static constexpr uint32_t kParts = 1;       // of 8 weights in 16 bytes
  static constexpr bool kScalesSums = false;  // whether sums are multiplied by scales.sum_scale
  static constexpr bool kPairsApart = false;  // words hold weights i and i + 4 of a part, not neighbours
  static constexpr float kSumFactor = 1.0F;   // of finished sums

  __device__ static __forceinline__ uint64_t scale_row(const WeightParams& /*w*/, const LaneRows& /*rows*/) { return 0; }
  /// Part `part` of the lane's codes in half `half` of a unit.
  __device__ static __forceinline__ void decode(const uint4& codes, const Scales& /*scales*/, uint32_t /*half*/,
                                                uint32_t /*part*/, uint32_t (&words)[4]) {
    words[0] = codes.x;
    words[1] = codes.y;
    words[2] = codes.z;
    words[3] = codes.w;
  }
};

__device__ __forceinline__ uint32_t word_of(const uint4& codes, uint32_t i) {
  return i == 0 ? codes.x : i == 1 ? codes.y : i == 2 ? codes.z : codes.w;
}

/// Two E4M3 codes in the upper bytes of halves.
__device__ __forceinline__ uint32_t e4m3_pair(uint32_t bytes) {
  constexpr uint32_t kFactor = 0x7b807b80U;  // 2^120: the difference of the exponents' biases
  return multiply_pair((bytes & 0x80008000U) | (bytes >> 4 & 0x07f007f0U), kFactor);
}

template <class OfFormat>
struct Fp8Weights {
  using Format = OfFormat;
  static constexpr uint32_t kParts = 2;
  static constexpr bool kPairsApart = false;
  static constexpr float kSumFactor = 1.0F;

  __device__ static __forceinline__ void decode_part(const uint4& codes, uint32_t part, uint32_t (&words)[4]) {
#pragma unroll
    for (uint32_t i = 0; i < 2; ++i) {
      const uint32_t four = word_of(codes, 2 * part + i);
      words[2 * i] = e4m3_pair(__byte_perm(four, 0, 0x1404));
      words[2 * i + 1] = e4m3_pair(__byte_perm(four, 0, 0x3424));
    }
  }
};

struct Fp8RowWeights : Fp8Weights<gpu::Fp8RowFormat> {
  using Scales = NoScales;
  static constexpr bool kScalesSums = false;

  __device__ static __forceinline__ uint64_t scale_row(const WeightParams& /*w*/, const LaneRows& /*rows*/) { return 0; }
  __device__ static __forceinline__ void decode(const uint4& codes, const Scales& /*scales*/, uint32_t /*half*/, uint32_t part,
                                                uint32_t (&words)[4]) {
    decode_part(codes, part, words);
  }
};

/// A unit is one block wide, and the rows of a tile share their blocks (at least 8 rows each).
struct Fp8BlockWeights : Fp8Weights<gpu::Fp8BlockFormat> {
  struct Scales {
    float sum_scale;
    __device__ __forceinline__ void load(const WeightParams& w, uint64_t row, uint32_t unit, bool exists,
                                         const bool (&/*has*/)[2]) {
      sum_scale = load_scale(row, unit, w.scale_is_bf16 != 0, exists);
    }
  };
  static constexpr bool kScalesSums = true;

  __device__ static __forceinline__ uint64_t scale_row(const WeightParams& w, const LaneRows& rows) {
    return w.scale + uint64_t{rows.sums >> w.block_shift} * w.scale_columns * (w.scale_is_bf16 != 0 ? 2 : 4);
  }
  __device__ static __forceinline__ void decode(const uint4& codes, const Scales& /*scales*/, uint32_t /*half*/, uint32_t part,
                                                uint32_t (&words)[4]) {
    decode_part(codes, part, words);
  }
};

/// A lane's 16 bytes are two groups of 16 codes.
struct Nvfp4Weights {
  using Format = gpu::Nvfp4Format;
  struct Scales {
    uint32_t pair[2];  // E4M3 codes of a half's two groups
    __device__ __forceinline__ void load(const WeightParams& /*w*/, uint64_t row, uint32_t unit, bool /*exists*/,
                                         const bool (&has)[2]) {
#pragma unroll
      for (uint32_t half = 0; half < 2; ++half) {
        pair[half] = load_weights_16(row + unit * 16 + half * 8, has[half]);
      }
    }
  };
  static constexpr uint32_t kParts = 4;
  static constexpr bool kScalesSums = false;
  static constexpr bool kPairsApart = true;
  static constexpr float kSumFactor = 256.0F;  // decode() leaves out 2^8

  __device__ static __forceinline__ uint64_t scale_row(const WeightParams& w, const LaneRows& rows) {
    return w.scale + uint64_t{rows.codes} * w.scale_columns + threadIdx.x % 4 * 2;
  }
  __device__ static __forceinline__ void decode(const uint4& codes, const Scales& scales, uint32_t half, uint32_t part,
                                                uint32_t (&words)[4]) {
    // E4M3 as BF16 is 2^-120 of its value, E2M1 2^-126: the scale takes on 2^(120 + 118).
    const uint32_t bits = __byte_perm(scales.pair[half], 0, 0x1404) >> 4 & 0x07f007f0U;
    const uint32_t both = multiply_pair(multiply_pair(bits, 0x7f007f00U), 0x77007700U);  // 2^127, 2^111
    const uint32_t scale = __byte_perm(both, 0, part < 2 ? 0x1010 : 0x3232);
    const uint32_t eight = word_of(codes, part);
    constexpr uint32_t kSign = 0x80008000U;
    constexpr uint32_t kMagnitude = 0x01c001c0U;
    words[0] = multiply_pair((eight << 12 & kSign) | (eight << 6 & kMagnitude), scale);
    words[1] = multiply_pair((eight << 8 & kSign) | (eight << 2 & kMagnitude), scale);
    words[2] = multiply_pair((eight << 4 & kSign) | (eight >> 2 & kMagnitude), scale);
    words[3] = multiply_pair((eight & kSign) | (eight >> 6 & kMagnitude), scale);
  }
};

/// A lane's row of a weight.
template <class Weights>
struct WeightRow {
  uint64_t codes;   // of the lane's part of the first unit
  uint64_t scales;  // likewise
  int32_t bytes;    // of the row from there on

  WeightRow() = default;
  __device__ __forceinline__ WeightRow(const WeightParams& w, const LaneRows& rows, uint32_t in_features) {
    const auto row_bytes = static_cast<uint32_t>(Weights::Format::bytes(in_features));
    const uint32_t offset = threadIdx.x % 4 * 16;
    codes = w.codes + uint64_t{rows.codes} * row_bytes + offset;
    scales = Weights::scale_row(w, rows);
    bytes = static_cast<int32_t>(row_bytes - offset);
  }
};

/// A lane's share of one unit of a weight row. What lies past the end of the row is zero.
template <class Weights>
struct WeightUnit {
  uint4 codes[2];
  typename Weights::Scales scales;

  /// `exists`: whether the unit begins before the end of the row; the same in all lanes.
  __device__ __forceinline__ void load(const WeightParams& w, const WeightRow<Weights>& row, uint32_t unit, bool exists,
                                       uint64_t policy) {
    bool has[2];
#pragma unroll
    for (uint32_t half = 0; half < 2; ++half) {
      const uint32_t at = unit * kUnitBytes + half * kHalfBytes;
      has[half] = static_cast<int32_t>(at) < row.bytes;
      codes[half] = load_weights(row.codes + at, has[half], policy);
    }
    scales.load(w, row.scales, unit, exists, has);
  }
};

/// Weights of a unit.
template <class Weights>
__host__ __device__ constexpr uint32_t unit_elements() {
  return kUnitBytes / 16 * Weights::Format::kVector;
}
template <class Weights>
__device__ __forceinline__ uint32_t num_units(uint32_t in_features) {
  return (in_features + unit_elements<Weights>() - 1) / unit_elements<Weights>();
}

/// A lane's share of two rows of x in one unit: row lane / 4 and the one eight further, which may stay zero.
template <class Weights>
struct ActivationUnit {
  uint4 low[2][Weights::kParts];
  uint4 high[2][Weights::kParts];

  /// As decode() has the weights.
  __device__ static __forceinline__ uint4 ordered(const uint4& eight) {
    if constexpr (!Weights::kPairsApart) return eight;
    return make_uint4(__byte_perm(eight.x, eight.z, 0x5410), __byte_perm(eight.x, eight.z, 0x7632),
                      __byte_perm(eight.y, eight.w, 0x5410), __byte_perm(eight.y, eight.w, 0x7632));
  }
};

/// sums += the products of one unit: of x rows lane / 4 and lane / 4 + 8 with weight rows lane % 4 * 2 and the next of the tile.
template <class Weights>
__device__ __forceinline__ void add_unit(const WeightUnit<Weights>& w, const ActivationUnit<Weights>& x, float (&sums)[4]) {
#pragma unroll
  for (uint32_t half = 0; half < 2; ++half) {
    float chain[4] = {};  // short ones, so that many are under way
#pragma unroll
    for (uint32_t part = 0; part < Weights::kParts; ++part) {
      uint32_t words[4];
      Weights::decode(w.codes[half], w.scales, half, part, words);
      const uint4 low = x.low[half][part];
      const uint4 high = x.high[half][part];
      multiply_bf16(chain, {low.x, high.x, low.y, high.y}, words[0], words[1]);
      multiply_bf16(chain, {low.z, high.z, low.w, high.w}, words[2], words[3]);
    }
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) {
      if constexpr (Weights::kScalesSums) {
        sums[i] = fmaf(w.scales.sum_scale, chain[i], sums[i]);
      } else {
        sums[i] += chain[i];
      }
    }
  }
}

}  // namespace
}  // namespace foretoken::cuda
