// How the streaming kernels read each weight format: the shape of its kernels, 16 bytes of a row's codes as operands of
// mma.m16n8k16, and their scales.
#pragma once

#include <iterator>
#include <string>

#include "backends/cuda/kernels/e4m3_fragments.cuh"
#include "backends/cuda/kernels/nvfp4_fragments.cuh"
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
  static constexpr bool kHasInstructions = true;  // whether the code being compiled for has them; else the kernels are empty
  template <class Format>
  using Input = StreamInput<Format>;
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
  static constexpr const auto& kVariants = kBf16Variants;
  FORETOKEN_DEVICE static void decode(const uint4& codes, NoPieceScales /*scales*/, uint32_t /*part*/, uint32_t (&pairs)[4]) {
    pairs[0] = codes.x;
    pairs[1] = codes.y;
    pairs[2] = codes.z;
    pairs[3] = codes.w;
  }
};

struct Fp8Stream : PlainStream {
  static constexpr const auto& kVariants = kFp8Variants;
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

/// A piece has two groups of 16 codes, and their scales, which its slice brings along.
struct Nvfp4Stream : PlainStream {
  static constexpr const auto& kVariants = kNvfp4Variants;
  struct PieceScales {
    uint32_t halves;
  };
  FORETOKEN_DEVICE static PieceScales piece_scales(const uint8_t* scales, uint32_t piece) {
    return {e4m3_to_half(*reinterpret_cast<const uint16_t*>(scales + piece * 8 + threadIdx.x % 4 * 2))};
  }
  FORETOKEN_DEVICE static void decode(const uint4& codes, PieceScales scales, uint32_t part, uint32_t (&pairs)[4]) {
    const uint32_t eight = part == 0 ? codes.x : part == 1 ? codes.y : part == 2 ? codes.z : codes.w;
    decode_nvfp4(eight, nvfp4_scale(scales.halves, part / 2), pairs);
  }
  FORETOKEN_DEVICE static uint4 arrange(const uint4& x) { return nvfp4_order(x); }
  FORETOKEN_DEVICE static float outer_scale(const gpu::WeightParams& w, uint32_t row) {
    return gpu::pointer<const float>(w.global_scale)[row / w.rows_per_global] * kNvfp4Factor;
  }
};

/// A format in one of its shapes.
template <class Format, StreamShape kOfVariant>
struct InShape : Format {
  static constexpr StreamShape kShape = kOfVariant;
};

/// Adds the kernels of `Operator` for a format, one a variant: Operator::kernel<Format in a shape>().
template <class Format, class Operator, size_t kVariant = 0>
void add_stream_variants(gpu::KernelList& list, const std::string& name) {
  if constexpr (kVariant < std::size(Format::kVariants)) {
    constexpr StreamVariant kOne = Format::kVariants[kVariant];
    gpu::KernelEntry entry =
        gpu::kernel_entry(name + kOne.suffix, Operator::template kernel<InShape<Format, kOne.shape>>(), kOne.shape.num_threads());
    entry.large_group_memory = true;
    entry.min_group_memory = kOne.shape.group_memory;
    entry.min_architecture = kOne.shape.cluster > 1 ? 90 : 80;
    list.push_back(entry);
    add_stream_variants<Format, Operator, kVariant + 1>(list, name);
  }
}

}  // namespace
}  // namespace foretoken::cuda
