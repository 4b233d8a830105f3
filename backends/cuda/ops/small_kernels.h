// How the latency kernels for small weights are launched (kernels/small.cuh): what every operator over them has in common.
#pragma once

#include <algorithm>
#include <array>
#include <limits>
#include <span>
#include <string>

#include "backends/command_list.h"
#include "backends/cuda/kernels/small_params.h"
#include "backends/cuda/ops/weight_size.h"
#include "backends/cuda/ops/weight_units.h"
#include "backends/gpu/ops/weights.h"
#include "backends/kernel.h"

namespace foretoken::cuda {

/// Warps that share a row of a weight; `rows` counts those of all matrices of which a tile has some. It decides the order of
/// sums, so it must depend on the weight alone.
[[nodiscard]] inline uint32_t small_slice_bits(const LinearWeight& w, int64_t rows) {
  constexpr int64_t kWantedRows = int64_t{kSmallTileRows} * 128 * kSmallWarps;  // of all warps: a group for each multiprocessor
  uint32_t bits = 0;
  while (1U << bits < kSmallWarps && 2U << bits <= num_units(w) &&
         (w.in_features() > int64_t{kSmallBatch} << bits || rows << bits < kWantedRows)) {
    ++bits;
  }
  return bits;
}

/// Batches of one warp's part of a row that should be under way together.
[[nodiscard]] inline uint32_t small_batches(const LinearWeight& w, uint32_t slice_bits) {
  return gpu::ceil_div(num_units(w), 1U << slice_bits) <= kSmallBatch / unit_elements(w) ? 1 : 2;
}

/// A launch over weights of one format.
class SmallLaunch {
 public:
  explicit SmallLaunch(const Tensor& x)
      : params_{.projection = {},
                .x = x.address(),
                .x_stride = gpu::stride(x),
                .num_rows = gpu::extent(x, 0),
                .in_features = gpu::extent(x, 1),
                .releases_early = 0,
                .reserved = 0} {
    for (SmallProjection& projection : params_.projection) projection.first_group = std::numeric_limits<uint32_t>::max();
  }

  /// out = x w^T, for up to kSmallProjections weights.
  void add(const LinearWeight& w, const Tensor& out) { place(params_.projection[num_projections_++], w, out, kSmallTileRows); }
  /// out = silu(x gate^T) * (x up^T), once, after all projections.
  void add_pair(const LinearWeight& gate, const LinearWeight& up, const Tensor& out) {
    place(params_.projection[kSmallPair], gate, out, kSmallTileRows / 2);
    params_.projection[kSmallPair + 1] = params_.projection[kSmallPair];
    params_.projection[kSmallPair + 1].weight = gpu::weight_params(up);
  }

  /// Lets the next kernel start while this one waits. Where many kernels do, they get into each other's way.
  void release_early() { params_.releases_early = 1; }

  [[nodiscard]] const SmallParams& params() const { return params_; }
  [[nodiscard]] uint32_t num_groups() const { return num_groups_; }
  [[nodiscard]] uint32_t num_batches() const { return num_batches_; }
  [[nodiscard]] WeightFormat format() const { return format_; }

 private:
  /// A tile of rows has `tile_columns` columns of the result.
  void place(SmallProjection& projection, const LinearWeight& w, const Tensor& out, uint32_t tile_columns) {
    const uint32_t slice_bits = small_slice_bits(w, w.out_features() * (kSmallTileRows / tile_columns));
    const auto out_features = static_cast<uint32_t>(w.out_features());
    projection = {.weight = gpu::weight_params(w),
                  .out = out.address(),
                  .out_stride = gpu::stride(out),
                  .out_features = out_features,
                  .slice_bits = slice_bits,
                  .first_group = num_groups_,
                  .out_is_bf16 = gpu::is_bf16(out)};
    num_groups_ += gpu::ceil_div(out_features, (kSmallWarps >> slice_bits) * tile_columns);
    num_batches_ = std::max(num_batches_, small_batches(w, slice_bits));
    format_ = w.format;
  }

  SmallParams params_;
  uint32_t num_projections_ = 0;
  uint32_t num_groups_ = 0;
  uint32_t num_batches_ = 1;
  WeightFormat format_ = WeightFormat::kBF16;
};

/// The variants of small_linear; the choice among those of a format changes no bits.
class SmallKernels {
 public:
  explicit SmallKernels(const KernelModule& module) {
    for (const WeightFormat format : gpu::kTensorCoreFormats) {
      const std::string prefix = "small_linear_" + gpu::kernel_suffix(format);
      formats_[static_cast<size_t>(format)] = {
          module.resolve<SmallParams>(prefix + "_x8_b1"), module.resolve<SmallParams>(prefix + "_x8_b2"),
          module.resolve<SmallParams>(prefix + "_x16_b1"), module.resolve<SmallParams>(prefix + "_x16_b2")};
    }
  }

  void launch(CommandList& cmd, const SmallLaunch& launch, std::span<const Access> accesses) const {
    const bool few = launch.params().num_rows <= 8;
    const Kernel<SmallParams>& kernel = formats_[static_cast<size_t>(launch.format())][(few ? 0 : 2) + launch.num_batches() - 1];
    kernel(cmd, Grid{.x = launch.num_groups(), .y = gpu::ceil_div(launch.params().num_rows, few ? 8U : 16U)}, launch.params(),
           accesses);
  }

 private:
  std::array<std::array<Kernel<SmallParams>, 4>, 5> formats_;
};

/// Whether the kernels take these operands: no, with the reason, or yes.
[[nodiscard]] inline Availability small_accepts(const LinearWeight& w, const Tensor& x) {
  if (x.dtype() != DType::kBF16) return Availability::no("for BF16 activations only");
  if (w.format == WeightFormat::kF32) return Availability::no("F32 weights would be rounded");
  if (is_streamed(w)) return Availability::no("for weights of less than " + std::to_string(kStreamedBytes >> 20) + " MiB");
  if (w.format == WeightFormat::kFp8Block && w.block_rows < int32_t{kSmallTileRows}) {
    return Availability::no("blocks of at least " + std::to_string(kSmallTileRows) + " rows");
  }
  return gpu::has_whole_vectors(w, x);
}

}  // namespace foretoken::cuda
