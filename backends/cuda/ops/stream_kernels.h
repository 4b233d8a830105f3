// The streaming kernels of one operator, by format.
#pragma once

#include <array>
#include <optional>
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

/// The shape of a format's kernels; none where there are no such kernels.
[[nodiscard]] inline std::optional<StreamShape> stream_shape(WeightFormat format, StreamMath math) {
  if (math == StreamMath::kBlockScaled) {
    return format == WeightFormat::kNvfp4 ? std::optional(kStreamBlockScaled) : std::nullopt;
  }
  switch (format) {
    case WeightFormat::kF32: return std::nullopt;
    case WeightFormat::kBF16: return kStreamBf16;
    case WeightFormat::kFp8Row:
    case WeightFormat::kFp8Block: return kStreamFp8;
    case WeightFormat::kNvfp4: return kStreamNvfp4;
  }
  return std::nullopt;
}

/// The kernels of one operator: one a format, and its variant in clusters.
template <class Params>
class StreamKernels {
 public:
  StreamKernels(const KernelModule& module, const std::string& name, StreamMath math) : math_(math) {
    for (const WeightFormat format : kFormats) {
      if (!stream_shape(format, math)) continue;
      const std::string suffix = math == StreamMath::kBlockScaled ? "block_scaled" : gpu::kernel_suffix(format);
      const std::string full_name = name + "_" + suffix;
      Variants& variants = formats_[static_cast<size_t>(format)];
      variants.single = module.resolve_optional<Params>(full_name);
      variants.clusters = module.resolve_optional<Params>(full_name + "_clusters");
    }
  }

  /// Whether there is a kernel that takes these operands: no, with the reason, or yes.
  [[nodiscard]] Availability accepts(const LinearWeight& w, const Tensor& x) const {
    const std::optional<StreamShape> shape = stream_shape(w.format, math_);
    if (!shape) return Availability::no("no kernel for weights of " + std::string(to_string(w.format)));
    const Kernel<Params>& kernel = formats_[static_cast<size_t>(w.format)].single;
    if (!kernel) return Availability::no(kernel.absent_reason());
    if (math_ == StreamMath::kBlockScaled) {
      if (const Availability wanted = block_scaled_wanted(); !wanted) return wanted;
    }
    return streams(*shape, w, x);
  }

  /// How to launch over operands that accepts() let through.
  [[nodiscard]] StreamPlan plan(WeightFormat format, const Tensor& x, const Capabilities& device) const {
    const bool has_clusters = static_cast<bool>(formats_[static_cast<size_t>(format)].clusters);
    return plan_stream(*stream_shape(format, math_), has_clusters, gpu::extent(x, 1), gpu::extent(x, 0), device);
  }
  [[nodiscard]] const Kernel<Params>& kernel(WeightFormat format, const StreamPlan& plan) const {
    const Variants& variants = formats_[static_cast<size_t>(format)];
    return plan.in_clusters ? variants.clusters : variants.single;
  }

 private:
  static constexpr std::array kFormats{WeightFormat::kBF16, WeightFormat::kFp8Row, WeightFormat::kFp8Block, WeightFormat::kNvfp4};

  struct Variants {
    Kernel<Params> single;
    Kernel<Params> clusters;
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
