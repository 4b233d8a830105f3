// linear and linear_silu_mul for prefill, on tensor cores.
#include <array>
#include <string>

#include "backends/cuda/cuda_ops.h"
#include "backends/cuda/kernels/prefill_params.h"
#include "backends/gpu/ops/weights.h"
#include "core/ops/linear.h"

namespace foretoken::cuda {
namespace {

using gpu::extent;
using gpu::stride;

/// The variants of one kernel for each weight format; there is none for F32, which BF16 would round.
class PrefillKernels {
 public:
  PrefillKernels(const KernelModule& module, const std::string& name) {
    for (const WeightFormat format : kFormats) {
      kernels_[static_cast<size_t>(format)] = module.resolve<PrefillParams>(name + "_" + gpu::kernel_suffix(format));
    }
  }
  [[nodiscard]] const Kernel<PrefillParams>& get(WeightFormat format) const { return kernels_[static_cast<size_t>(format)]; }

 private:
  static constexpr std::array kFormats{WeightFormat::kBF16, WeightFormat::kFp8Row, WeightFormat::kFp8Block, WeightFormat::kNvfp4};
  std::array<Kernel<PrefillParams>, 5> kernels_;
};

Availability accepts(LinearPrecision precision, const LinearWeight& w, const Tensor& x) {
  if (precision != LinearPrecision::kBF16) return Availability::no("for prefill with BF16 activations only");
  if (w.format == WeightFormat::kF32) return Availability::no("F32 weights would be rounded");
  if (w.in_features() % kPrefillDepth != 0) return Availability::no("rows of a multiple of 32 weights");
  if (!gpu::is_aligned(w, x))
    return Availability::no("operands must begin and rows must follow each other at multiples of 16 bytes");
  return Availability::yes();
}

PrefillParams prefill_params(const LinearWeight& w, const Tensor& x, const Tensor& out) {
  return {.weight = gpu::weight_params(w),
          .second = {},
          .x = x.address(),
          .out = out.address(),
          .x_stride = stride(x),
          .out_stride = stride(out),
          .num_rows = extent(x, 0),
          .in_features = extent(x, 1),
          .out_features = extent(out, 1),
          .x_is_bf16 = gpu::is_bf16(x),
          .out_is_bf16 = gpu::is_bf16(out),
          .reserved = 0};
}

Grid prefill_grid(const PrefillParams& params, uint32_t columns) {
  return {.x = gpu::ceil_div(params.out_features, columns), .y = gpu::ceil_div(params.num_rows, kPrefillRows)};
}

}  // namespace

void add_prefill_ops(OpTable& table, const KernelModule& module) {
  table.add<Linear>(
      "mma",
      [kernels = PrefillKernels(module, "prefill_linear")](CommandList& cmd, const Linear& op) {
        const PrefillParams params = prefill_params(op.w, op.x, op.out);
        kernels.get(op.w.format)(cmd, prefill_grid(params, kPrefillColumns), params, accesses_of(op));
      },
      [](const Linear& op) { return accepts(op.precision, op.w, op.x); });

  table.add<LinearSiluMul>(
      "mma",
      [kernels = PrefillKernels(module, "prefill_silu_mul")](CommandList& cmd, const LinearSiluMul& op) {
        PrefillParams params = prefill_params(op.gate, op.x, op.out);
        params.second = gpu::weight_params(op.up);
        kernels.get(op.gate.format)(cmd, prefill_grid(params, kPrefillColumns / 2), params, accesses_of(op));
      },
      [](const LinearSiluMul& op) {
        if (const Availability same = gpu::gate_and_up_agree(op); !same) return same;
        const Availability gate = accepts(op.precision, op.gate, op.x);
        return gate ? accepts(op.precision, op.up, op.x) : gate;
      });
}

}  // namespace foretoken::cuda
