// The streaming kernels of NVFP4 where tensor cores multiply E2M1 by block scales (sm_120, sm_121): no weight is decoded.
#pragma once

#include "backends/cuda/kernels/stream_formats.cuh"
#include "backends/cuda/kernels/stream_terms.inl"

namespace foretoken::cuda {
namespace {

#if defined(__CUDA_ARCH_FAMILY_SPECIFIC__) && __CUDA_ARCH_FAMILY_SPECIFIC__ == 1200
#define FORETOKEN_BLOCK_SCALED
#endif

/// Adds to c the products of 16 weight rows and 8 columns over 64 k, each 16 k times their scales.
FORETOKEN_DEVICE void multiply_add_scaled(float (&c)[4], const WeightOperand& a, uint2 b, uint32_t b_scales) {
#ifdef FORETOKEN_BLOCK_SCALED
  asm("mma.sync.aligned.kind::mxf4nvf4.block_scale.scale_vec::4X.m16n8k64.row.col.f32.e2m1.e2m1.f32.ue4m3 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3}, {%10}, {%12, %12}, {%11}, {%12, %12};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a.codes[0]), "r"(a.codes[1]), "r"(a.codes[2]), "r"(a.codes[3]), "r"(b.x), "r"(b.y), "r"(a.scales), "r"(b_scales),
        "n"(0));
#endif
}

/// The rows of x as a warp brings them into shared memory: slice by slice, as BF16, which are then split in place.
template <class Format>
class TermInput {
 public:
  FORETOKEN_DEVICE TermInput(const StreamParams& p, const StreamShare& share, const StreamMemory<Format::kShape>& memory)
      : x_(reinterpret_cast<uint8_t*>(memory.x)),
        x_scale_(memory.x_scale),
        num_rows_(share.num_x),
        row_bytes_(p.x_stride * 2),
        source_(p.x + (share.first_x * p.x_stride + share.first_slice * kShape.slice_elements) * 2) {}

  /// Begins to copy a slice; all lanes call it, 512 bytes of a row at a time.
  FORETOKEN_DEVICE void fetch(uint32_t slice) const {
    const uint32_t lane = threadIdx.x % kLanes;
    for (uint32_t row = 0; row < num_rows_; ++row) {
      copy_16(shared_address(slice_at(slice) + row * kRawBytes + lane * 16),
              source_ + row * row_bytes_ + slice * kRawBytes + lane * 16);
    }
  }

  /// Splits a slice, whose copies all lanes see. Lane l has group l % 16 of rows l / 16, l / 16 + 2, ...
  FORETOKEN_DEVICE void convert(uint32_t slice) const {
    const uint32_t lane = threadIdx.x % kLanes;
    const uint32_t group = lane % kSliceGroups;
    uint4 raw[kTileColumns / 2][2];
#pragma unroll
    for (uint32_t i = 0; i < kTileColumns / 2; ++i) {
      const uint32_t row = i * 2 + lane / kSliceGroups;
#pragma unroll
      for (uint32_t half = 0; half < 2; ++half) {
        raw[i][half] = row < num_rows_
                           ? *reinterpret_cast<const uint4*>(slice_at(slice) + row * kRawBytes + group * 32 + half * 16)
                           : make_uint4(0, 0, 0, 0);
      }
    }
    __syncwarp();
    const TermSlice terms(slice_at(slice), num_rows_);
#pragma unroll
    for (uint32_t i = 0; i < kTileColumns / 2; ++i) {
      const uint32_t row = i * 2 + lane / kSliceGroups;
      const uint32_t largest = max(largest_bf16(raw[i][0]), largest_bf16(raw[i][1]));
      uint32_t slice_largest = largest;
#pragma unroll
      for (int mask = 1; mask < static_cast<int>(kSliceGroups); mask *= 2) {
        slice_largest = max(slice_largest, lane_xor(slice_largest, mask));
      }
      if (row >= num_rows_) continue;
      const uint32_t exponent = slice_exponent(slice_largest);
      const uint32_t halves[2][4] = {{raw[i][0].x, raw[i][0].y, raw[i][0].z, raw[i][0].w},
                                     {raw[i][1].x, raw[i][1].y, raw[i][1].z, raw[i][1].w}};
      terms.store(row, group, halves, largest, exponent);
      if (group == 0) x_scale_[slice * kTileColumns + row] = slice_factor(exponent);
    }
  }

  FORETOKEN_DEVICE TermSlice terms(uint32_t slice) const { return {slice_at(slice), num_rows_}; }
  FORETOKEN_DEVICE bool has_column() const { return threadIdx.x % kLanes / 4 < num_rows_; }
  /// What the sums of a slice must be multiplied by, of the two rows that are the lane's columns of a product.
  FORETOKEN_DEVICE float2 scale(uint32_t slice) const {
    return *reinterpret_cast<const float2*>(x_scale_ + slice * kTileColumns + threadIdx.x % 4 * 2);
  }

 private:
  static constexpr StreamShape kShape = Format::kShape;
  static constexpr uint32_t kRawBytes = kShape.slice_elements * 2;  // of a row's slice in BF16

  FORETOKEN_DEVICE uint8_t* slice_at(uint32_t slice) const {
    return x_ + slice * kSliceGroups * kShape.x_group_bytes * num_rows_;
  }

  uint8_t* x_;
  float* x_scale_;
  uint32_t num_rows_;
  uint64_t row_bytes_;
  uint64_t source_;
};

/// Adds the products of one slice, times the factors of x; the arguments are those of the other formats.
template <class Format, uint32_t kBlocks>
FORETOKEN_DEVICE void add_slice(const uint8_t* codes, const uint8_t* scales, const TermInput<Format>& x, uint32_t slice,
                                const float2 (&/*inner*/)[Format::kShape.blocks], StreamSums<Format::kShape>& sums) {
  static_assert(kBlocks == 1);
  constexpr StreamShape kShape = Format::kShape;
  const uint32_t lane = threadIdx.x % kLanes;
  const uint8_t* first_codes = codes - lane / 4 * kShape.row_stride();
  const uint8_t* first_scales = scales - lane / 4 * kShape.scale_stride();
  const TermSlice terms = x.terms(slice);
  float products[kTerms][4] = {};
#pragma unroll
  for (uint32_t i = 0; i < kSliceProducts; ++i) {
    const WeightOperand a = weight_operand(first_codes + i * kBlockScaledDepth / 2, kShape.row_stride(), first_scales + i * 4,
                                           kShape.scale_stride(), lane);
    const uint32_t b_scales = x.has_column() ? terms.scale_word(i, lane) : 0;
#pragma unroll
    for (uint32_t term = 0; term < kTerms; ++term) {
      multiply_add_scaled(products[term], a, x.has_column() ? terms.codes(i, term, lane) : make_uint2(0, 0), b_scales);
    }
  }
  const float2 factor = x.scale(slice);
#pragma unroll
  for (uint32_t i = 0; i < 4; ++i) {
    float& sum = sums.tile[0][0][i];
    sum = fmaf(join_terms(products, i), i % 2 == 0 ? factor.x : factor.y, sum);
  }
}

struct BlockScaledStream : PlainStream {
  static constexpr const auto& kVariants = kBlockScaledVariants;
#ifdef FORETOKEN_BLOCK_SCALED
  static constexpr bool kHasInstructions = true;
#else
  static constexpr bool kHasInstructions = false;
#endif
  template <class Format>
  using Input = TermInput<Format>;
  FORETOKEN_DEVICE static float outer_scale(const gpu::WeightParams& w, uint32_t row) {
    return gpu::pointer<const float>(w.global_scale)[row / w.rows_per_global];
  }
};

#undef FORETOKEN_BLOCK_SCALED

}  // namespace
}  // namespace foretoken::cuda
