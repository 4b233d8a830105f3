// linear and linear_silu_mul for prefill: activations and weights in BF16, sums in float32, mma.sync m16n8k16 (sm_80 and later).
// The activations are the operand of 16 rows, the weight rows that of 8 columns; both are read along K as they lie in memory.
#pragma once

#include "backends/cuda/kernels/device.h"
#include "backends/cuda/kernels/prefill_params.h"
#include "backends/gpu/kernel_entry.h"
#include "backends/gpu/weight_formats.inl"

namespace foretoken::cuda {
namespace {

using gpu::Codes;
using gpu::kLanes;
using gpu::pointer;
using gpu::WeightParams;

constexpr uint32_t kChunk = 16;                  // weight elements that a thread loads together: they share their inner scale
constexpr uint32_t kStride = kPrefillDepth + 8;  // BF16 elements from row to row in shared memory: fragments meet no conflict
constexpr uint32_t kWarpRows = 32;               // of a warp's part of the tile
constexpr uint32_t kWarpWeights = 32;
constexpr uint32_t kRowBlocks = kWarpRows / 16;
constexpr uint32_t kColumnBlocks = kWarpWeights / 8;
constexpr uint32_t kWarpsAcross = kPrefillColumns / kWarpWeights;

/// One stage of the pipeline.
struct Stage {
  uint16_t x[kPrefillRows * kStride];
  uint16_t weight[kPrefillColumns * kStride];
};

__device__ __forceinline__ uint32_t pack_bf16(float low, float high) {
  return static_cast<uint32_t>(gpu::float_to_bf16(low)) | static_cast<uint32_t>(gpu::float_to_bf16(high)) << 16;
}

__device__ __forceinline__ void multiply(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/// 8 activations of one row on their way: thread t has row t / 4, columns t % 4 * 8 ...
struct ActivationLoad {
  uint32_t word[8];

  __device__ __forceinline__ void load(const PrefillParams& p, uint32_t first_row, uint32_t k) {
    const uint32_t row = gpu::smaller(first_row + threadIdx.x / 4, p.num_rows - 1);
    const uint64_t element = row * p.x_stride + k + threadIdx.x % 4 * 8;
    const uint4* source = pointer<const uint4>(p.x + element * (p.x_is_bf16 != 0 ? 2 : 4));
    const uint4 first = source[0];
    word[0] = first.x;
    word[1] = first.y;
    word[2] = first.z;
    word[3] = first.w;
    if (p.x_is_bf16 != 0) return;
    const uint4 second = source[1];
    word[4] = second.x;
    word[5] = second.y;
    word[6] = second.z;
    word[7] = second.w;
  }
  __device__ __forceinline__ void store(const PrefillParams& p, Stage& stage) const {
    uint4 packed = make_uint4(word[0], word[1], word[2], word[3]);
    if (p.x_is_bf16 == 0) {
      const auto pair = [this](int i) { return pack_bf16(gpu::bits_to_float(word[2 * i]), gpu::bits_to_float(word[2 * i + 1])); };
      packed = make_uint4(pair(0), pair(1), pair(2), pair(3));
    }
    *reinterpret_cast<uint4*>(stage.x + threadIdx.x / 4 * kStride + threadIdx.x % 4 * 8) = packed;
  }
};

/// kChunk weights of one row on their way: thread t has row t / 2 of the tile, columns t % 2 * kChunk ...
template <class Format>
struct WeightLoad {
  static constexpr uint32_t kWords = static_cast<uint32_t>(kChunk * 128 / Format::kVector / 32);
  uint32_t word[kWords];
  float scale;

  __device__ __forceinline__ void load(const WeightParams& w, uint32_t n, uint32_t k, uint32_t in_features) {
    const uint32_t column = k + threadIdx.x % 2 * kChunk;
    const uint2* source = pointer<const uint2>(w.codes + Format::bytes(uint64_t{n} * in_features + column));
#pragma unroll
    for (uint32_t i = 0; i < kWords / 2; ++i) {
      const uint2 two = __ldg(source + i);
      word[2 * i] = two.x;
      word[2 * i + 1] = two.y;
    }
    scale = Format::inner_scale(w, w.scale, n, column);
  }
  __device__ __forceinline__ void store(Stage& stage) const {
    uint32_t packed[kChunk / 2];
    constexpr uint32_t kWordsPerPart = kWords * Format::kPart / kChunk;
#pragma unroll
    for (uint32_t part = 0; part < kChunk / Format::kPart; ++part) {
      Codes codes{};
#pragma unroll
      for (uint32_t i = 0; i < kWordsPerPart; ++i) codes.word[i] = word[part * kWordsPerPart + i];
      float values[Format::kPart];
      Format::decode(codes, 0, values);
#pragma unroll
      for (uint32_t i = 0; i < Format::kPart; i += 2) {
        packed[(part * Format::kPart + i) / 2] =
            Format::kScalesInside ? pack_bf16(values[i] * scale, values[i + 1] * scale) : pack_bf16(values[i], values[i + 1]);
      }
    }
    auto* target = reinterpret_cast<uint4*>(stage.weight + threadIdx.x / 2 * kStride + threadIdx.x % 2 * kChunk);
    target[0] = make_uint4(packed[0], packed[1], packed[2], packed[3]);
    target[1] = make_uint4(packed[4], packed[5], packed[6], packed[7]);
  }
};

/// A warp's part of the result: kRowBlocks x kColumnBlocks blocks of 16 x 8.
struct WarpSums {
  float block[kRowBlocks][kColumnBlocks][4];

  __device__ __forceinline__ void add(const Stage& stage) {
    const uint32_t warp = threadIdx.x / kLanes;
    const uint32_t lane = threadIdx.x % kLanes;
    const uint32_t row = warp / kWarpsAcross * kWarpRows + lane / 4;
    const uint32_t column = warp % kWarpsAcross * kWarpWeights + lane / 4;
    const auto at = [lane](const uint16_t* tile, uint32_t r, uint32_t k) {
      return *reinterpret_cast<const uint32_t*>(tile + r * kStride + k + lane % 4 * 2);
    };
#pragma unroll
    for (uint32_t k = 0; k < kPrefillDepth; k += 16) {
      uint32_t a[kRowBlocks][4];
      uint32_t b[kColumnBlocks][2];
#pragma unroll
      for (uint32_t i = 0; i < kRowBlocks; ++i) {
        a[i][0] = at(stage.x, row + i * 16, k);
        a[i][1] = at(stage.x, row + i * 16 + 8, k);
        a[i][2] = at(stage.x, row + i * 16, k + 8);
        a[i][3] = at(stage.x, row + i * 16 + 8, k + 8);
      }
#pragma unroll
      for (uint32_t j = 0; j < kColumnBlocks; ++j) {
        b[j][0] = at(stage.weight, column + j * 8, k);
        b[j][1] = at(stage.weight, column + j * 8, k + 8);
      }
#pragma unroll
      for (uint32_t i = 0; i < kRowBlocks; ++i) {
#pragma unroll
        for (uint32_t j = 0; j < kColumnBlocks; ++j) multiply(block[i][j], a[i], b[j]);
      }
    }
  }
};

/// Row `j` of a tile of weight rows: which of the two weights (0, 1) and which row of it. Gate and up alternate by eight, so that
/// a warp has both of a column.
template <bool kGated>
__device__ __forceinline__ uint2 weight_row(uint32_t tile, uint32_t j) {
  if constexpr (kGated) return make_uint2(j / 8 % 2, tile * (kPrefillColumns / 2) + j / 16 * 8 + j % 8);
  return make_uint2(0, tile * kPrefillColumns + j);
}

template <class Format>
__device__ __forceinline__ float outer_scale(const WeightParams& shape, const WeightParams& w, uint32_t n) {
  return Format::outer_scale(shape, w.scale, w.global_scale, n);
}

template <class Format, bool kGated>
__device__ __forceinline__ void store_sums(const PrefillParams& p, const WarpSums& sums) {
  const uint32_t warp = threadIdx.x / kLanes;
  const uint32_t lane = threadIdx.x % kLanes;
#pragma unroll
  for (uint32_t i = 0; i < kRowBlocks; ++i) {
#pragma unroll
    for (uint32_t j = 0; j < kColumnBlocks; j += kGated ? 2 : 1) {
#pragma unroll
      for (uint32_t e = 0; e < 4; ++e) {
        const uint32_t row = blockIdx.y * kPrefillRows + warp / kWarpsAcross * kWarpRows + i * 16 + lane / 4 + e / 2 * 8;
        const uint32_t in_tile = warp % kWarpsAcross * kWarpWeights + j * 8 + lane % 4 * 2 + e % 2;
        const uint32_t n = weight_row<kGated>(blockIdx.x, in_tile).y;
        if (row >= p.num_rows || n >= p.out_features) continue;
        float value = sums.block[i][j][e] * outer_scale<Format>(p.weight, p.weight, n);
        if constexpr (kGated) value = gpu::silu(value) * (sums.block[i][j + 1][e] * outer_scale<Format>(p.weight, p.second, n));
        gpu::store_float(p.out, row * p.out_stride + n, value, p.out_is_bf16 != 0);
      }
    }
  }
}

template <class Format, bool kGated>
__global__ void __launch_bounds__(kPrefillThreads) prefill(const PrefillParams p) {
  gpu::begin_kernel();
  __shared__ alignas(16) Stage stages[2];
  const uint32_t first_row = blockIdx.y * kPrefillRows;
  const uint2 place = weight_row<kGated>(blockIdx.x, threadIdx.x / 2);
  WeightParams w = p.weight;
  if (place.x != 0) {
    w.codes = p.second.codes;
    w.scale = p.second.scale;
  }
  const uint32_t n = gpu::smaller(place.y, p.out_features - 1);
  ActivationLoad x;
  WeightLoad<Format> weight;
  WarpSums sums{};
  x.load(p, first_row, 0);
  weight.load(w, n, 0, p.in_features);
  uint32_t stage = 0;
  for (uint32_t k = 0; k < p.in_features; k += kPrefillDepth) {
    x.store(p, stages[stage]);
    weight.store(stages[stage]);
    __syncthreads();
    if (k + kPrefillDepth < p.in_features) {
      x.load(p, first_row, k + kPrefillDepth);
      weight.load(w, n, k + kPrefillDepth, p.in_features);
    }
    sums.add(stages[stage]);
    stage ^= 1;
  }
  store_sums<Format, kGated>(p, sums);
}

}  // namespace

/// `format` names the format in kernel names: "bf16".
template <class Format>
void add_prefill_kernels(gpu::KernelList& list, const std::string& format) {
  list.push_back(gpu::kernel_entry("prefill_linear_" + format, prefill<Format, false>, kPrefillThreads));
  list.push_back(gpu::kernel_entry("prefill_silu_mul_" + format, prefill<Format, true>, kPrefillThreads));
}

}  // namespace foretoken::cuda
