// What the implementations that read weights have in common.
#pragma once

#include <string>

#include "backends/cpu/cpu_info.h"
#include "backends/cpu/kernels/linear_params.h"
#include "backends/cpu/ops/operands.h"
#include "backends/kernel.h"
#include "backends/op_table.h"
#include "backends/view_checks.h"
#include "core/error.h"
#include "core/linear_weight.h"

namespace foretoken::cpu {

/// A weight as kernels take it.
[[nodiscard]] inline WeightParams weight_params(const LinearWeight& weight) {
  const auto rows = static_cast<uint32_t>(weight.out_features());
  const auto rows_per_scale = [&]() -> uint32_t {
    constexpr uint32_t kAll = 1U << 31;
    switch (weight.format) {
      case WeightFormat::kF32:
      case WeightFormat::kBF16: return 1;
      case WeightFormat::kFp8Row: return weight.scale.shape() == Shape{1} ? kAll : 1;
      case WeightFormat::kFp8Block: return static_cast<uint32_t>(weight.block_rows);
      case WeightFormat::kNvfp4: {
        const Shape& shape = weight.global_scale.shape();
        return rows / static_cast<uint32_t>(shape[shape.rank() - 1]);
      }
    }
    return 1;
  };
  return {.codes = weight.weight.address(),
          .scale = weight.scale.address(),
          .global_scale = weight.global_scale.address(),
          .rows = rows,
          .rows_per_scale = rows_per_scale(),
          .scale_is_bf16 = weight.scale && weight.scale.dtype() == DType::kBF16 ? 1U : 0U,
          .reserved = 0};
}

/// The variants of one kernel for each weight format; those that this build or device lacks are absent.
template <class Params>
class WeightKernels {
 public:
  /// Resolves `name`_f32, `name`_bf16, ... Throws InternalError when the parameters differ in size.
  WeightKernels(const KernelModule& module, const std::string& name)
      : f32_(module.resolve<Params>(name + "_f32")),
        bf16_(module.resolve<Params>(name + "_bf16")),
        fp8_row_(module.resolve<Params>(name + "_fp8_row")),
        fp8_block_(module.resolve<Params>(name + "_fp8_block")),
        nvfp4_(module.resolve_optional<Params>(name + "_nvfp4")) {
    if (!nvfp4_) nvfp4_ = Kernel<Params>::absent(std::string(kNvfp4Needs));
  }

  [[nodiscard]] const Kernel<Params>& get(WeightFormat format) const {
    switch (format) {
      case WeightFormat::kF32: return f32_;
      case WeightFormat::kBF16: return bf16_;
      case WeightFormat::kFp8Row: return fp8_row_;
      case WeightFormat::kFp8Block: return fp8_block_;
      case WeightFormat::kNvfp4: return nvfp4_;
    }
    return nvfp4_;
  }

  [[nodiscard]] Availability available(WeightFormat format) const {
    const Kernel<Params>& kernel = get(format);
    if (kernel) return Availability::yes();
    return Availability::no(std::string(to_string(format)) + " weights: " + kernel.absent_reason());
  }

 private:
  Kernel<Params> f32_, bf16_, fp8_row_, fp8_block_, nvfp4_;
};

}  // namespace foretoken::cpu
