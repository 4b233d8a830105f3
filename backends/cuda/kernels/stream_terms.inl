// NVFP4 weights as operands of mma.m16n8k64 with block scales, as they lie in memory, and rows of x as sums of E2M1 terms to go
// with them: what the lanes of a warp hold, free of device instructions, so that a host can go through it too. Included after
// what gives FORETOKEN_DEVICE, numeric.inl's functions and cuda_fp4.h.
//
// The instruction multiplies 16 rows (weights) by 8 columns (rows of x) over 64 k, each 16 k of a row or column with an unsigned
// E4M3 scale. Lane (g, t) = (lane / 4, lane % 4) holds, eight codes a register, the low nibble first:
//   a[0], a[1]  rows g and g + 8, k = 8t ...;  a[2], a[3]  the same rows, k = 32 + 8t ...
//   b[0], b[1]  column g, k = 8t ... and k = 32 + 8t ...
//   c[0 .. 3]   row g, columns 2t and 2t + 1; row g + 8, columns 2t and 2t + 1
// and the four scales of a row or column are the bytes of one register, k = 0 first: for a that of the lanes with t = 0 (row g)
// and t = 1 (row g + 8), for b that of the lanes with t = 0 (column g), when the selectors are 0. The fragments are those of
// the PTX ISA, "Matrix Fragments for mma.m16n8k64"; the lanes and the byte order of the scales follow from how CUTLASS and Triton
// lay them out, and no device has confirmed them yet.
//
// A group of 16 elements x is s * (d0 + d1 / 8 + d2 / 64 + ...): s a power of two that puts the largest magnitude into [2, 4), d
// the nearest E2M1 of what is left. Up to 4, E2M1 has steps of 1 at most, so each term leaves half a step of 1, which the next
// sees as at most 4. After kTerms the error is at most 2^-(3 kTerms - 1) of the group's largest magnitude, 2^-14, where rounding
// to BF16 may cost 2^-9; and elements of the 3 kTerms - 7 = 8 highest binades of their group have no error at all, because BF16
// has 8 significant bits. The terms of a group share its scale; their sums are kept apart and join in float32.
#pragma once

#include "backends/cuda/kernels/stream_params.h"

namespace foretoken::cuda {

/// k that one instruction multiplies, and instructions of a slice.
constexpr uint32_t kBlockScaledDepth = 64;
constexpr uint32_t kSliceProducts = kStreamBlockScaled.slice_elements / kBlockScaledDepth;
constexpr uint32_t kSliceGroups = kStreamBlockScaled.slice_elements / 16;
static_assert(kSliceProducts * kBlockScaledDepth / 2 == kSliceBytes);

/// A lane's registers of the weights.
struct WeightOperand {
  uint32_t codes[4];
  uint32_t scales;
};

FORETOKEN_DEVICE uint32_t load_word(const uint8_t* address) { return *reinterpret_cast<const uint32_t*>(address); }

/// Eight codes of a group whose scale is byte `group` of `scales`, for its magnitude: NVFP4 allows negative scales.
FORETOKEN_DEVICE uint32_t codes_for_magnitude(uint32_t codes, uint32_t scales, uint32_t group) {
  return codes ^ (scales >> (8 * group + 7) & 1U) * 0x88888888U;
}

/// What `lane` takes of 16 weight rows: `codes` and `scales` are the 32 bytes and the 4 bytes of the first row that belong to the
/// product, from row to row it is so many bytes.
FORETOKEN_DEVICE WeightOperand weight_operand(const uint8_t* codes, uint32_t row_stride, const uint8_t* scales,
                                              uint32_t scale_stride, uint32_t lane) {
  const uint32_t row = lane / 4;
  const uint32_t t = lane % 4;
  const uint8_t* low = codes + row * row_stride + t * 4;
  const uint8_t* high = low + 8 * row_stride;
  const uint32_t low_scales = load_word(scales + row * scale_stride);
  const uint32_t high_scales = load_word(scales + (row + 8) * scale_stride);
  return {{codes_for_magnitude(load_word(low), low_scales, t / 2), codes_for_magnitude(load_word(high), high_scales, t / 2),
           codes_for_magnitude(load_word(low + 16), low_scales, 2 + t / 2),
           codes_for_magnitude(load_word(high + 16), high_scales, 2 + t / 2)},
          (t % 2 == 0 ? low_scales : high_scales) & 0x7f7f7f7fU};
}

/// The scale of the slice of a row whose largest magnitude has these BF16 bits, as a biased exponent: the scales of its groups
/// are E4M3 times 2^(exponent - 9) and reach from there 18 binades down; what begins below is rounded to at most 2^-32 of the
/// largest.
FORETOKEN_DEVICE uint32_t slice_exponent(uint32_t largest) {
  constexpr uint32_t kLeast = 19;  // so that every power below is a normal number; exponents under it belong to numbers < 2^-107
  const uint32_t exponent = largest >> 7;
  return exponent < kLeast ? kLeast : exponent;
}

/// What the sums of a slice must be multiplied by. NaN where an element was not finite.
FORETOKEN_DEVICE float slice_factor(uint32_t exponent) {
  return gpu::bits_to_float(exponent == 255 ? 0x7fc00000U : (exponent - 9) << 23);
}

/// A group's scale: log2, which is between -9 and 8.
FORETOKEN_DEVICE int32_t group_scale(uint32_t largest, uint32_t slice) {
  const int32_t scale = static_cast<int32_t>(largest >> 7) - static_cast<int32_t>(slice) + 8;
  return scale < -9 ? -9 : scale;
}

/// Its E4M3 code: below 2^-6 numbers are subnormal.
FORETOKEN_DEVICE uint32_t power_to_e4m3(int32_t scale) {
  return scale < -6 ? 1U << (scale + 9) : static_cast<uint32_t>(scale + 7) << 3;
}

/// What the elements of a group are to be multiplied by before they are split.
FORETOKEN_DEVICE float inverse_scale(int32_t scale, uint32_t slice) {
  return gpu::bits_to_float(static_cast<uint32_t>(254 - (static_cast<int32_t>(slice) - 9 + scale)) << 23);
}

/// Splits eight BF16, times `factor`, into their terms: codes of eight nibbles, in order.
FORETOKEN_DEVICE void split_eight(const uint32_t (&pairs)[4], float factor, uint32_t (&terms)[kTerms]) {
  for (uint32_t& term : terms) term = 0;
  for (uint32_t i = 0; i < 4; ++i) {
    float low = gpu::bits_to_float(pairs[i] << 16) * factor;
    float high = gpu::bits_to_float(pairs[i] & 0xffff0000U) * factor;
    for (uint32_t term = 0; term < kTerms; ++term) {
      const __nv_fp4x2_storage_t two = __nv_cvt_float2_to_fp4x2(make_float2(low, high), __NV_E2M1, cudaRoundNearest);
      terms[term] |= static_cast<uint32_t>(two) << (8 * i);
      const float2 nearest = gpu::halves_to_floats(__nv_cvt_fp4x2_to_halfraw2(two, __NV_E2M1));
      low = (low - nearest.x) * 8.0F;
      high = (high - nearest.y) * 8.0F;
    }
  }
}

/// The terms of one slice of `num_rows` rows of x, at most 8, in shared memory: words [product, term, row, t, half], so that a
/// lane's two registers lie side by side, and the scales behind them, bytes [product, row, group].
class TermSlice {
 public:
  FORETOKEN_DEVICE TermSlice(uint8_t* memory, uint32_t num_rows) : memory_(memory), num_rows_(num_rows) {}

  /// Splits a group of a row: eight BF16 of each half of it, and the bits of its largest magnitude.
  FORETOKEN_DEVICE void store(uint32_t row, uint32_t group, const uint32_t (&halves)[2][4], uint32_t largest,
                              uint32_t slice) const {
    const int32_t scale = group_scale(largest, slice);
    const float factor = inverse_scale(scale, slice);
    for (uint32_t half = 0; half < 2; ++half) {
      uint32_t terms[kTerms];
      split_eight(halves[half], factor, terms);
      const uint32_t t = group % 2 * 2 + half;
      for (uint32_t term = 0; term < kTerms; ++term) {
        reinterpret_cast<uint32_t*>(place(group / 4, term, row, t))[group / 2 % 2] = terms[term];
      }
    }
    scales(group / 4, row)[group % 4] = static_cast<uint8_t>(power_to_e4m3(scale));
  }

  /// What `lane` takes of a term; its column must be a row.
  FORETOKEN_DEVICE uint2 codes(uint32_t product, uint32_t term, uint32_t lane) const {
    return *reinterpret_cast<const uint2*>(place(product, term, lane / 4, lane % 4));
  }
  FORETOKEN_DEVICE uint32_t scale_word(uint32_t product, uint32_t lane) const { return load_word(scales(product, lane / 4)); }

 private:
  FORETOKEN_DEVICE uint8_t* place(uint32_t product, uint32_t term, uint32_t row, uint32_t t) const {
    return memory_ + (((product * kTerms + term) * num_rows_ + row) * 4 + t) * sizeof(uint2);
  }
  FORETOKEN_DEVICE uint8_t* scales(uint32_t product, uint32_t row) const {
    return place(kSliceProducts, 0, 0, 0) + (product * num_rows_ + row) * 4;
  }

  uint8_t* memory_;
  uint32_t num_rows_;
};

/// Element i of the sums of all terms: those of the smaller ones first.
FORETOKEN_DEVICE float join_terms(const float (&sums)[kTerms][4], uint32_t i) {
  float sum = sums[kTerms - 1][i];
  for (uint32_t term = kTerms - 1; term > 0; --term) sum = fmaf(sum, 0.125F, sums[term - 1][i]);
  return sum;
}

}  // namespace foretoken::cuda
