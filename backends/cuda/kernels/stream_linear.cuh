// The streaming kernels of linear, linear_group and linear_silu_mul for one weight format.
#pragma once

#include "backends/cuda/kernels/stream_formats.cuh"

namespace foretoken::cuda {
namespace {

/// Stores the results of each part, or, paired, silu(result of part 0) * result of part 1.
template <bool kPairs>
struct StoreResults {
  static constexpr bool kPaired = kPairs;

  FORETOKEN_DEVICE void take(const StreamParams& p, const StreamShare& share, const TileResults& results) {
    const uint32_t column = threadIdx.x % 4 * 2;
#pragma unroll
    for (uint32_t i = 0; i < 2; ++i) {
      if (column + i >= share.num_x) return;
      const uint32_t row = share.first_x + column + i;
      if constexpr (kPairs) {
        if (results.has_low) store(p.part[0], row, results.low.row, gpu::silu(results.value[i]) * results.value[i + 2]);
      } else {
        if (results.has_low) store(p.part[results.low.part], row, results.low.row, results.value[i]);
        if (results.has_high) store(p.part[results.high.part], row, results.high.row, results.value[i + 2]);
      }
    }
  }
  FORETOKEN_DEVICE void finish(const StreamParams& /*p*/, const StreamShare& /*share*/) {}

 private:
  FORETOKEN_DEVICE static void store(const StreamPart& part, uint32_t row, uint32_t column, float value) {
    gpu::store_float(part.out, row * part.out_stride + column, value, part.out_is_bf16 != 0);
  }
};

template <class Format, bool kPaired>
__global__ void __launch_bounds__(Format::kShape.num_threads(), 1) stream_linear(const __grid_constant__ StreamParams p) {
  StoreResults<kPaired> results;
  stream<Format>(p, results);
}

template <class Format, bool kPaired>
__global__ void __launch_bounds__(Format::kShape.num_threads(), 1) FORETOKEN_CLUSTER(Format::kShape.cluster)
    stream_linear_clusters(const __grid_constant__ StreamParams p) {
  StoreResults<kPaired> results;
  stream<Format>(p, results);
}

template <bool kPaired>
struct StreamLinear {
  template <class Format>
  static auto kernel() {
    if constexpr (Format::kShape.cluster > 1) {
      return stream_linear_clusters<Format, kPaired>;
    } else {
      return stream_linear<Format, kPaired>;
    }
  }
};

/// stream_linear_FORMAT and stream_silu_mul_FORMAT, each in the format's variants.
template <class Format>
void add_stream_kernels(gpu::KernelList& list, const std::string& format) {
  add_stream_variants<Format, StreamLinear<false>>(list, "stream_linear_" + format);
  add_stream_variants<Format, StreamLinear<true>>(list, "stream_silu_mul_" + format);
}

}  // namespace
}  // namespace foretoken::cuda
