// linear and linear_silu_mul over large weights, streamed through the multiprocessors (kernels/stream.cuh).
#include <array>
#include <optional>
#include <span>
#include <string>

#include "backends/cuda/cuda_ops.h"
#include "backends/cuda/ops/stream_plan.h"
#include "core/ops/linear.h"

namespace foretoken::cuda {
namespace {

using gpu::extent;
using gpu::stride;

/// The shape of a format's kernels; none where there are no such kernels.
std::optional<StreamShape> shape_of(WeightFormat format) {
  switch (format) {
    case WeightFormat::kBF16: return kStreamBf16;
    case WeightFormat::kFp8Row:
    case WeightFormat::kFp8Block: return kStreamFp8;
    case WeightFormat::kF32:
    case WeightFormat::kNvfp4: return std::nullopt;
  }
  return std::nullopt;
}

/// The kernels of one operator: one a format, and its variant in clusters.
class StreamKernels {
 public:
  StreamKernels(const KernelModule& module, const std::string& name) {
    for (const WeightFormat format : {WeightFormat::kBF16, WeightFormat::kFp8Row, WeightFormat::kFp8Block}) {
      const std::string full_name = name + "_" + gpu::kernel_suffix(format);
      Variants& variants = formats_[static_cast<size_t>(format)];
      variants.single = module.resolve_optional<StreamParams>(full_name);
      variants.clusters = module.resolve_optional<StreamParams>(full_name + "_clusters");
    }
  }

  [[nodiscard]] Availability accepts(const LinearWeight& w, const Tensor& x) const {
    const std::optional<StreamShape> shape = shape_of(w.format);
    if (!shape) return Availability::no("no kernel for weights of " + std::string(to_string(w.format)));
    const Kernel<StreamParams>& kernel = formats_[static_cast<size_t>(w.format)].single;
    if (!kernel) return Availability::no(kernel.absent_reason());
    return streams(*shape, w, x);
  }

  /// Launches over operands that accepts() let through. `params` has the parts and out_features.
  void launch(CommandList& cmd, WeightFormat format, const Tensor& x, StreamParams params,
              std::span<const Access> accesses) const {
    const Variants& variants = formats_[static_cast<size_t>(format)];
    const StreamPlan plan =
        plan_stream(*shape_of(format), static_cast<bool>(variants.clusters), extent(x, 1), extent(x, 0), cmd.capabilities());
    params.x = x.address();
    params.x_stride = stride(x);
    params.num_rows = extent(x, 0);
    params.in_features = extent(x, 1);
    params.group_rows = plan.group_rows;
    params.num_stages = plan.num_stages;
    (plan.in_clusters ? variants.clusters : variants.single)(cmd, plan.grid, params, accesses);
  }

 private:
  struct Variants {
    Kernel<StreamParams> single;
    Kernel<StreamParams> clusters;
  };
  std::array<Variants, 5> formats_;
};

StreamPart part_of(const LinearWeight& w, const Tensor& out, uint32_t rows_before) {
  return {.weight = gpu::weight_params(w),
          .out = out.address(),
          .out_stride = stride(out),
          .end = rows_before + static_cast<uint32_t>(w.out_features()),
          .out_is_bf16 = gpu::is_bf16(out)};
}

}  // namespace

void add_stream_ops(OpTable& table, const KernelModule& module) {
  const StreamKernels linear(module, "stream_linear");
  table.add<Linear>(
      "stream",
      [linear](CommandList& cmd, const Linear& op) {
        StreamParams params{};
        params.part[0] = part_of(op.w, op.out, 0);
        params.out_features = params.part[0].end;
        linear.launch(cmd, op.w.format, op.x, params, accesses_of(op));
      },
      [linear](const Linear& op) { return linear.accepts(op.w, op.x); });

  const StreamKernels silu_mul(module, "stream_silu_mul");
  table.add<LinearSiluMul>(
      "stream",
      [silu_mul](CommandList& cmd, const LinearSiluMul& op) {
        StreamParams params{};
        params.part[0] = part_of(op.gate, op.out, 0);
        params.part[1] = part_of(op.up, op.out, 0);
        params.out_features = params.part[0].end;
        silu_mul.launch(cmd, op.gate.format, op.x, params, accesses_of(op));
      },
      [silu_mul](const LinearSiluMul& op) {
        const Availability gate = silu_mul.accepts(op.gate, op.x);
        return gate ? silu_mul.accepts(op.up, op.x) : gate;
      });
}

}  // namespace foretoken::cuda
