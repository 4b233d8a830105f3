// How the rows of x come into shared memory for the streaming kernels.
#pragma once

#include "backends/cuda/kernels/stream_memory.cuh"

namespace foretoken::cuda {
namespace {

/// Eight BF16 as FP16, times `scale`.
FORETOKEN_DEVICE uint4 to_half(const uint4& values, float scale) {
  const auto pair = [scale](uint32_t two) {
    const __half2 halves =
        __floats2half2_rn(gpu::bits_to_float(two << 16) * scale, gpu::bits_to_float(two & 0xffff0000U) * scale);
    return *reinterpret_cast<const uint32_t*>(&halves);
  };
  return make_uint4(pair(values.x), pair(values.y), pair(values.z), pair(values.w));
}

/// The largest magnitude among eight BF16, as bits.
FORETOKEN_DEVICE uint32_t largest_bf16(const uint4& values) {
  constexpr uint32_t kMagnitude = 0x7fff7fffU;
  const uint32_t largest =
      __vmaxu2(__vmaxu2(values.x & kMagnitude, values.y & kMagnitude), __vmaxu2(values.z & kMagnitude, values.w & kMagnitude));
  return max(largest >> 16, largest & 0xffffU);
}

/// The rows of x as a warp brings them into shared memory: slice by slice, as fragments. Fragment f of lane (g, t) of a slice
/// lies at [f, g, t] and holds eight elements of row g: those that belong to the f % kParts-th 8 codes of piece t + f / kParts *
/// 4, of the 8 pieces of 16 bytes that a slice of codes has.
template <class Format>
class StreamInput {
 public:
  FORETOKEN_DEVICE StreamInput(const StreamParams& p, const StreamShare& share, const StreamMemory<Format::kShape>& memory)
      : x_(memory.x),
        x_scale_(memory.x_scale),
        step_(share.num_x * 4),
        has_row_(threadIdx.x % kLanes / 4 < share.num_x),
        column_(has_row_ ? threadIdx.x % kLanes : threadIdx.x % 4),
        source_(p.x + ((share.first_x + threadIdx.x % kLanes / 4) * p.x_stride + share.first_slice * kShape.slice_elements +
                       threadIdx.x % 4 * 8) *
                          2) {}

  /// Begins to copy a slice; all lanes call it. Four lanes copy 64 consecutive bytes of their row at a time to where they are as
  /// consecutive, which is what the copies are fast at. For BF16 that makes fragments of them.
  FORETOKEN_DEVICE void fetch(uint32_t slice) const {
    if (!has_row_) return;
#pragma unroll
    for (uint32_t i = 0; i < kShape.fragments(); ++i) {
      copy_16(shared_address(own(slice, i)), source_ + (slice * kShape.slice_elements + i * 32) * 2);
    }
  }

  /// Makes FP16 fragments of a fetched slice: times the power of two that puts the largest of the row's slice into [2^14, 2^15).
  /// BF16 has 8 significant bits, so everything down to 2^-32 of the largest stays exact; what lies below is rounded to multiples
  /// of 2^-39 of it, far finer than the float32 sum it enters. The inverse power is kept for that sum.
  FORETOKEN_DEVICE void convert(uint32_t slice) const {
    uint4 values[kShape.fragments()];
    uint32_t largest = 0;
#pragma unroll
    for (uint32_t i = 0; i < kShape.fragments(); ++i) {
      values[i] = has_row_ ? *own(slice, i) : make_uint4(0, 0, 0, 0);
      largest = max(largest, largest_bf16(values[i]));
    }
    largest = max(largest, lane_xor(largest, 1));
    largest = max(largest, lane_xor(largest, 2));
    constexpr uint32_t kLeast = 15;  // exponents below, of numbers under 2^-112, would ask for a power that float32 does not have
    const uint32_t exponent = max(largest >> 7, kLeast);
    const float scale = gpu::bits_to_float((127 + 127 + 14 - exponent) << 23);
    __syncwarp();  // all lanes have read
    if (!has_row_) return;
    const uint32_t lane = threadIdx.x % kLanes;
#pragma unroll
    for (uint32_t i = 0; i < kShape.fragments(); ++i) {
      const uint32_t eight = i * 4 + lane % 4;  // of the row's slice
      const uint32_t piece = eight / kParts;
      const uint32_t fragment = piece / 4 * kParts + eight % kParts;
      x_[(slice * kShape.fragments() + fragment) * step_ + lane / 4 * 4 + piece % 4] = Format::arrange(to_half(values[i], scale));
    }
    if (lane % 4 == 0) x_scale_[slice * kTileColumns + lane / 4] = gpu::bits_to_float((exponent - 14) << 23);
  }

  /// The lane's fragment of a slice. Nobody looks at the columns of lanes without a row: they have zeros where memory is what
  /// counts, and where instructions do the fragment of the first row.
  FORETOKEN_DEVICE uint4 fragment(uint32_t slice, uint32_t index) const {
    if constexpr (kShape.decoding) {
      return x_[(slice * kShape.fragments() + index) * step_ + column_];
    } else {
      return has_row_ ? *own(slice, index) : make_uint4(0, 0, 0, 0);
    }
  }
  /// What the FP16 of a slice must be multiplied by, of the two rows that are the lane's columns of a product.
  FORETOKEN_DEVICE float2 scale(uint32_t slice) const {
    return *reinterpret_cast<const float2*>(x_scale_ + slice * kTileColumns + threadIdx.x % 4 * 2);
  }

 private:
  static constexpr StreamShape kShape = Format::kShape;
  static constexpr uint32_t kParts = kShape.fragments() / 2;

  FORETOKEN_DEVICE uint4* own(uint32_t slice, uint32_t index) const {
    return x_ + (slice * kShape.fragments() + index) * step_ + threadIdx.x % kLanes;
  }

  uint4* x_;
  float* x_scale_;
  uint32_t step_;  // from a fragment to the next
  bool has_row_;
  uint32_t column_;
  uint64_t source_;
};

}  // namespace
}  // namespace foretoken::cuda
