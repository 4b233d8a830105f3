// linear and linear_silu_mul for prefill, by the device's instructions that multiply matrices.
#include <array>
#include <string>

#include "backends/gpu/ops/weights.h"
#include "backends/hip/hip_ops.h"
#include "backends/hip/kernels/matrix_layouts.h"
#include "backends/hip/kernels/prefill_params.h"

namespace foretoken::hip {
namespace {

using gpu::ceil_div;
using gpu::LinearParams;

/// Below a block's rows the kernels that read a weight for a few rows do less.
constexpr int64_t kFewRows = kBlock;

/// The kernels of one operator.
class PrefillKernels {
 public:
  PrefillKernels(const KernelModule& module, const std::string& name) {
    for (const WeightFormat format : gpu::kTensorCoreFormats) {
      const std::string prefix = name + "_" + gpu::kernel_suffix(format);
      kernels_[static_cast<size_t>(format)] = {.large = module.resolve_optional<LinearParams>(prefix + "_large"),
                                               .small = module.resolve_optional<LinearParams>(prefix + "_small")};
    }
  }

  [[nodiscard]] Availability accepts(const LinearWeight& w, const Tensor& x, LinearPrecision precision) const {
    if (precision != LinearPrecision::kBF16) return Availability::no("for prefill with BF16 activations only");
    if (w.format == WeightFormat::kF32) return Availability::no("F32 weights would be rounded");
    const Kernel<LinearParams>& kernel = kernels_[static_cast<size_t>(w.format)].large;
    if (!kernel) return Availability::no(kernel.absent_reason());
    if (w.in_features() % kTileDepth != 0) return Availability::no("rows of a multiple of 32 weights");
    if (x.dim(0) < kFewRows) return Availability::no("for 16 rows or more");
    if (const Availability whole = gpu::has_whole_vectors(w, x); !whole) return whole;
    return gpu::fits_32_bits(x);
  }

  /// `projections`: 2 where half of a tile's columns are those of `params.second`.
  void launch(CommandList& cmd, WeightFormat format, const LinearParams& params, uint32_t projections,
              std::span<const Access> accesses) const {
    const auto grid_of = [&](const PrefillTile& tile) {
      return Grid{ceil_div(params.num_rows, tile.rows), ceil_div(params.out_features, tile.columns / projections)};
    };
    const Grid large = grid_of(kLargePrefillTile);
    const bool is_enough = large.x * large.y >= cmd.capabilities().num_compute_units;
    const Variants& kernels = kernels_[static_cast<size_t>(format)];
    if (is_enough) {
      kernels.large(cmd, large, params, accesses);
    } else {
      kernels.small(cmd, grid_of(kSmallPrefillTile), params, accesses);
    }
  }

 private:
  struct Variants {
    Kernel<LinearParams> large;
    Kernel<LinearParams> small;
  };
  std::array<Variants, 5> kernels_;  // by WeightFormat
};

}  // namespace

void add_prefill_ops(OpTable& table, const KernelModule& module) {
  const PrefillKernels linear(module, "prefill_linear");
  table.add<Linear>(
      "matrix",
      [linear](CommandList& cmd, const Linear& op) {
        linear.launch(cmd, op.w.format, gpu::linear_params(op.w, op.x, op.out, gpu::kWarpColumns), 1, accesses_of(op));
      },
      [linear](const Linear& op) { return linear.accepts(op.w, op.x, op.precision); });
  const PrefillKernels silu_mul(module, "prefill_silu_mul");
  table.add<LinearSiluMul>(
      "matrix",
      [silu_mul](CommandList& cmd, const LinearSiluMul& op) {
        silu_mul.launch(cmd, op.gate.format, gpu::linear_params(op, gpu::kWarpColumns), 2, accesses_of(op));
      },
      [silu_mul](const LinearSiluMul& op) {
        if (const Availability same = gpu::gate_and_up_agree(op); !same) return same;
        if (const Availability whole = gpu::has_whole_vectors(op.up, op.x); !whole) return whole;
        return silu_mul.accepts(op.gate, op.x, op.precision);
      });
}

}  // namespace foretoken::hip
