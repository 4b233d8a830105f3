// The linear operators over small weights with BF16 activations: latency kernels (kernels/small.cuh).
#include <algorithm>
#include <array>
#include <limits>
#include <string>

#include "backends/cuda/cuda_ops.h"
#include "backends/cuda/kernels/small_params.h"
#include "backends/cuda/ops/weight_size.h"
#include "backends/cuda/ops/weight_units.h"
#include "backends/gpu/ops/weights.h"
#include "core/ops/linear_group.h"

namespace foretoken::cuda {
namespace {

using gpu::ceil_div;
using gpu::extent;

/// Warps that share a row of a weight; `rows` counts those of all matrices of which a tile has some. It decides the order of
/// sums, so it must depend on the weight alone.
uint32_t slice_bits_of(const LinearWeight& w, int64_t rows) {
  constexpr int64_t kWantedRows = int64_t{kSmallTileRows} * 128 * kSmallWarps;  // of all warps: a group for each multiprocessor
  uint32_t bits = 0;
  while (1U << bits < kSmallWarps && 2U << bits <= num_units(w) &&
         (w.in_features() > int64_t{kSmallBatch} << bits || rows << bits < kWantedRows)) {
    ++bits;
  }
  return bits;
}

/// Batches of one warp's part of a row that should be under way together.
uint32_t batches_of(const LinearWeight& w, uint32_t slice_bits) {
  return ceil_div(num_units(w), 1U << slice_bits) <= kSmallBatch / unit_elements(w) ? 1 : 2;
}

/// A launch over weights of one format.
struct SmallLaunch {
  SmallParams params;
  uint32_t num_projections = 0;
  uint32_t num_groups = 0;
  uint32_t num_batches = 1;
  WeightFormat format = WeightFormat::kBF16;

  explicit SmallLaunch(const Tensor& x)
      : params{.projection = {},
               .x = x.address(),
               .x_stride = gpu::stride(x),
               .num_rows = extent(x, 0),
               .in_features = extent(x, 1)} {
    for (SmallProjection& projection : params.projection) projection.first_group = std::numeric_limits<uint32_t>::max();
  }

  /// Adds a weight; a tile of rows has `tile_columns` columns of its result.
  void add(const LinearWeight& w, const Tensor& out, uint32_t tile_columns = kSmallTileRows) {
    const uint32_t slice_bits = slice_bits_of(w, w.out_features() * (kSmallTileRows / tile_columns));
    const auto out_features = static_cast<uint32_t>(w.out_features());
    params.projection[num_projections++] = {.weight = gpu::weight_params(w),
                                            .out = out.address(),
                                            .out_stride = gpu::stride(out),
                                            .out_features = out_features,
                                            .slice_bits = slice_bits,
                                            .first_group = num_groups,
                                            .out_is_bf16 = gpu::is_bf16(out)};
    num_groups += ceil_div(out_features, (kSmallWarps >> slice_bits) * tile_columns);
    num_batches = std::max(num_batches, batches_of(w, slice_bits));
    format = w.format;
  }
};

/// The variants of small_linear or small_silu_mul; the choice among those of a format changes no bits.
class SmallKernels {
 public:
  SmallKernels(const KernelModule& module, const std::string& name) {
    for (const WeightFormat format : gpu::kTensorCoreFormats) {
      const std::string prefix = name + "_" + gpu::kernel_suffix(format);
      formats_[static_cast<size_t>(format)] = {
          module.resolve<SmallParams>(prefix + "_x8_b1"), module.resolve<SmallParams>(prefix + "_x8_b2"),
          module.resolve<SmallParams>(prefix + "_x16_b1"), module.resolve<SmallParams>(prefix + "_x16_b2")};
    }
  }

  void launch(CommandList& cmd, const SmallLaunch& launch, std::span<const Access> accesses) const {
    const bool few = launch.params.num_rows <= 8;
    const Kernel<SmallParams>& kernel = formats_[static_cast<size_t>(launch.format)][(few ? 0 : 2) + launch.num_batches - 1];
    kernel(cmd, Grid{.x = launch.num_groups, .y = ceil_div(launch.params.num_rows, few ? 8U : 16U)}, launch.params, accesses);
  }

 private:
  std::array<std::array<Kernel<SmallParams>, 4>, 5> formats_;
};

Availability accepts(const LinearWeight& w, const Tensor& x) {
  if (x.dtype() != DType::kBF16) return Availability::no("for BF16 activations only");
  if (w.format == WeightFormat::kF32) return Availability::no("F32 weights would be rounded");
  if (is_streamed(w)) return Availability::no("for weights of less than " + std::to_string(kStreamedBytes >> 20) + " MiB");
  if (w.format == WeightFormat::kFp8Block && w.block_rows < int32_t{kSmallTileRows}) {
    return Availability::no("blocks of at least " + std::to_string(kSmallTileRows) + " rows");
  }
  return gpu::has_whole_vectors(w, x);
}

void add_linear(OpTable& table, const SmallKernels& kernels) {
  table.add<Linear>(
      "small",
      [kernels](CommandList& cmd, const Linear& op) {
        SmallLaunch launch(op.x);
        launch.add(op.w, op.out);
        kernels.launch(cmd, launch, accesses_of(op));
      },
      [](const Linear& op) { return accepts(op.w, op.x); });
}

void add_linear_group(OpTable& table, const SmallKernels& kernels) {
  table.add<LinearGroup>(
      "small",
      [kernels](CommandList& cmd, const LinearGroup& op) {
        SmallLaunch launch(op.x);
        for (size_t i = 0; i < op.num_projections(); ++i) launch.add(op.w[i], op.out[i]);
        kernels.launch(cmd, launch, accesses_of(op));
      },
      [](const LinearGroup& op) {
        for (size_t i = 0; i < op.num_projections(); ++i) {
          if (op.w[i].format != op.w[0].format) return Availability::no("weights of one format");
          if (const Availability one = accepts(op.w[i], op.x); !one) return one;
        }
        return Availability::yes();
      });
}

void add_linear_silu_mul(OpTable& table, const KernelModule& module) {
  table.add<LinearSiluMul>(
      "small",
      [kernels = SmallKernels(module, "small_silu_mul")](CommandList& cmd, const LinearSiluMul& op) {
        SmallLaunch launch(op.x);
        launch.add(op.gate, op.out, kSmallTileRows / 2);
        launch.params.projection[1] = launch.params.projection[0];
        launch.params.projection[1].weight = gpu::weight_params(op.up);
        kernels.launch(cmd, launch, accesses_of(op));
      },
      [](const LinearSiluMul& op) {
        if (const Availability same = gpu::gate_and_up_agree(op); !same) return same;
        const Availability gate = accepts(op.gate, op.x);
        return gate ? accepts(op.up, op.x) : gate;
      });
}

}  // namespace

void add_small_ops(OpTable& table, const KernelModule& module) {
  const SmallKernels kernels(module, "small_linear");
  add_linear(table, kernels);
  add_linear_group(table, kernels);
  add_linear_silu_mul(table, module);
}

}  // namespace foretoken::cuda
