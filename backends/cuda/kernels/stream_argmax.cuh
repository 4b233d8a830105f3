// The LM head, streamed: no logit is written, each epilogue keeps the best of its rows of the weight.
#pragma once

#include "backends/cuda/kernels/stream_formats.cuh"
#include "backends/gpu/row_best.inl"

namespace foretoken::cuda {
namespace {

/// What a lane's two rows of x have seen: weight rows lane / 4 and lane / 4 + 8 of each tile, in ascending order.
class BestResults {
 public:
  static constexpr bool kPaired = false;

  FORETOKEN_DEVICE BestResults(const StreamArgmaxParams& params, uint32_t part) : params_(params), part_(part) {}

  FORETOKEN_DEVICE void take(const StreamParams& /*p*/, const StreamShare& /*share*/, const TileResults& results) {
#pragma unroll
    for (uint32_t i = 0; i < 2; ++i) {
      const float low = results.has_low ? results.value[i] : -INFINITY;
      const float high = results.has_high ? results.value[i + 2] : -INFINITY;
      if (params_.part_sum != 0) sum_[i] = larger_sum(best_[i].value, sum_[i], low, high);
      challenge(best_[i], low, results.low.row, results.has_low);
      challenge(best_[i], high, results.high.row, results.has_high);
    }
  }

  /// Lanes of the same rows of x put together what they have seen; the first four write it.
  FORETOKEN_DEVICE void finish(const StreamParams& /*p*/, const StreamShare& share) {
    const uint32_t lane = threadIdx.x % kLanes;
#pragma unroll
    for (uint32_t i = 0; i < 2; ++i) {
      gpu::RowBest row{best_[i], best_[i].value, sum_[i]};
#pragma unroll
      for (int mask = 4; mask < kLanes; mask *= 2) {
        row.best = better(row.best, gpu::Candidate{lane_xor(row.best.value, mask), lane_xor(row.best.index, mask)});
        row.add(lane_xor(row.maximum, mask), lane_xor(row.sum, mask));
      }
      const uint32_t column = lane * 2 + i;
      if (column >= share.num_x) continue;
      const uint64_t place = uint64_t{share.first_x + column} * params_.num_parts + part_;
      gpu::pointer<float>(params_.part_max)[place] = row.best.value;
      gpu::pointer<int32_t>(params_.part_id)[place] = row.best.index;
      if (params_.part_sum != 0) gpu::pointer<float>(params_.part_sum)[place] = row.sum;
    }
  }

 private:
  /// A later row of the weight wins only if it is larger, and NaN is larger than nothing.
  FORETOKEN_DEVICE static void challenge(gpu::Candidate& best, float value, uint32_t row, bool exists) {
    const bool wins = value > best.value || (best.index < 0 && exists && value == value);
    best.value = wins ? value : best.value;
    best.index = wins ? static_cast<int32_t>(row) : best.index;
  }
  /// `sum`, of exp(logit - maximum), with two more logits and for the maximum that they give. A NaN stays in it.
  FORETOKEN_DEVICE static float larger_sum(float maximum, float sum, float low, float high) {
    const float larger = fmaxf(maximum, fmaxf(low, high));
    const float base = larger == -INFINITY ? 0.0F : larger;
    return sum * __expf(maximum - base) + (__expf(low - base) + __expf(high - base));
  }

  const StreamArgmaxParams& params_;
  uint32_t part_;
  gpu::Candidate best_[2] = {{-INFINITY, -1}, {-INFINITY, -1}};
  float sum_[2] = {};
};

template <class Format>
FORETOKEN_DEVICE void stream_best(const StreamArgmaxParams& p) {
  constexpr StreamShape kShape = Format::kShape;
  const uint32_t epilogue = threadIdx.x / kLanes - kShape.multipliers() - kShape.loaders;
  BestResults results(p, blockIdx.x * kShape.epilogues + epilogue);
  stream<Format>(p.stream, results);
}

template <class Format>
__global__ void __launch_bounds__(Format::kShape.num_threads(), 1) stream_argmax(const __grid_constant__ StreamArgmaxParams p) {
  stream_best<Format>(p);
}

template <class Format>
__global__ void __launch_bounds__(Format::kShape.num_threads(), 1) FORETOKEN_CLUSTER(Format::kShape.cluster)
    stream_argmax_clusters(const __grid_constant__ StreamArgmaxParams p) {
  stream_best<Format>(p);
}

struct StreamArgmax {
  template <class Format>
  static auto kernel() {
    if constexpr (Format::kShape.cluster > 1) {
      return stream_argmax_clusters<Format>;
    } else {
      return stream_argmax<Format>;
    }
  }
};

/// stream_argmax_FORMAT in the format's variants.
template <class Format>
void add_stream_argmax_kernels(gpu::KernelList& list, const std::string& format) {
  add_stream_variants<Format, StreamArgmax>(list, "stream_argmax_" + format);
}

}  // namespace
}  // namespace foretoken::cuda
