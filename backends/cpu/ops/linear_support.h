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

/// A kernel on the tile unit, where this CPU has it: `name`_tiles_bf16.
template <class Params>
class TileKernel {
 public:
  TileKernel(const KernelModule& module, const std::string& name)
      : kernel_(module.resolve_optional<Params>(name + "_tiles_bf16")) {}

  [[nodiscard]] const Kernel<Params>& get() const { return kernel_; }

  /// Whether `weight` is multiplied on tiles. Depends on nothing but the weight, so all operators give a row the same bits.
  [[nodiscard]] Availability available(const LinearWeight& weight) const {
    // Shorter rows leave too little to fetch ahead: one row of activations is then faster without tiles.
    constexpr int64_t kMinFeatures = 4096;
    constexpr int64_t kMinOutputs = 64;
    if (!kernel_) return Availability::no("this CPU has no AMX-BF16 tiles, or a lower set is forced");
    if (weight.format != WeightFormat::kBF16) return Availability::no("for BF16 weights only");
    if (weight.in_features() < kMinFeatures || weight.out_features() < kMinOutputs)
      return Availability::no("too small for tiles");
    if (weight.in_features() > int64_t{kMaxTileFeatures}) return Availability::no("too many inputs for tiles");
    return Availability::yes();
  }

 private:
  Kernel<Params> kernel_;
};

}  // namespace foretoken::cpu
