// The streaming kernels of one operator, by format.
#pragma once

#include <array>
#include <span>
#include <string>

#include "backends/cuda/ops/stream_plan.h"
#include "backends/kernel.h"

namespace foretoken::cuda {

/// How weights are multiplied.
enum class StreamMath : uint8_t {
  kDecoded,     // as BF16 or FP16
  kBlockScaled  // NVFP4 as it lies in memory, by tensor cores that take block scales
};

/// Whether FORETOKEN_CUDA_BLOCK_SCALED=1 asks for StreamMath::kBlockScaled: no, with the reason, or yes.
[[nodiscard]] Availability block_scaled_wanted();

/// The variants of a format's kernels; none where there are no such kernels.
[[nodiscard]] inline std::span<const StreamVariant> stream_variants(WeightFormat format, StreamMath math) {
  if (math == StreamMath::kBlockScaled) {
    return format == WeightFormat::kNvfp4 ? std::span<const StreamVariant>(kBlockScaledVariants)
                                          : std::span<const StreamVariant>();
  }
  switch (format) {
    case WeightFormat::kF32: return {};
    case WeightFormat::kBF16: return kBf16Variants;
    case WeightFormat::kFp8Row:
    case WeightFormat::kFp8Block: return kFp8Variants;
    case WeightFormat::kNvfp4: return kNvfp4Variants;
  }
  return {};
}

/// The kernels of one operator: of each format, the variants that the device has.
template <class Params>
class StreamKernels {
 public:
  StreamKernels(const KernelModule& module, const std::string& name, StreamMath math) : math_(math) {
    for (const WeightFormat format : gpu::kTensorCoreFormats) {
      const std::string suffix = math == StreamMath::kBlockScaled ? "block_scaled" : gpu::kernel_suffix(format);
      const std::string full_name = name + "_" + suffix;
      Variants& mine = formats_[static_cast<size_t>(format)];
      for (const StreamVariant& variant : stream_variants(format, math)) {
        const Kernel<Params> kernel = module.resolve_optional<Params>(full_name + variant.suffix);
        if (kernel) {
          mine.shapes[mine.count] = variant.shape;
          mine.kernels[mine.count++] = kernel;
        } else if (mine.absent_reason.empty()) {
          mine.absent_reason = kernel.absent_reason();
        }
      }
    }
  }

  /// Whether there is a kernel that takes these operands: no, with the reason, or yes.
  [[nodiscard]] Availability accepts(const LinearWeight& w, const Tensor& x) const {
    const Variants& mine = formats_[static_cast<size_t>(w.format)];
    if (stream_variants(w.format, math_).empty()) {
      return Availability::no("no kernel for weights of " + std::string(to_string(w.format)));
    }
    if (mine.count == 0) return Availability::no(mine.absent_reason);
    if (math_ == StreamMath::kBlockScaled) {
      if (const Availability wanted = block_scaled_wanted(); !wanted) return wanted;
    }
    return streams(mine.shapes[mine.count - 1], w, x);
  }

  /// How to launch over operands that accepts() let through.
  [[nodiscard]] StreamPlan plan(WeightFormat format, const Tensor& x, const Capabilities& device) const {
    const Variants& mine = formats_[static_cast<size_t>(format)];
    return plan_stream(std::span(mine.shapes).first(mine.count), gpu::extent(x, 1), gpu::extent(x, 0), device);
  }
  [[nodiscard]] const Kernel<Params>& kernel(WeightFormat format, const StreamPlan& plan) const {
    return formats_[static_cast<size_t>(format)].kernels[plan.variant];
  }

 private:
  struct Variants {
    std::array<StreamShape, kMaxStreamVariants> shapes{};
    std::array<Kernel<Params>, kMaxStreamVariants> kernels;
    size_t count = 0;
    std::string absent_reason;  // of the first that the device lacks
  };
  StreamMath math_;
  std::array<Variants, 5> formats_;
};

/// The parameters that a plan and x decide; the parts and out_features are left to the caller.
[[nodiscard]] inline StreamParams stream_params(const StreamPlan& plan, const Tensor& x) {
  StreamParams params{};
  params.x = x.address();
  params.x_stride = gpu::stride(x);
  params.num_rows = gpu::extent(x, 0);
  params.group_rows = plan.group_rows;
  params.in_features = gpu::extent(x, 1);
  params.num_stages = plan.num_stages;
  return params;
}

}  // namespace foretoken::cuda
