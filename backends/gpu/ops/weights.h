// What the implementations that read weights have in common.
#pragma once

#include <array>
#include <bit>
#include <string>

#include "backends/gpu/linear_params.h"
#include "backends/gpu/ops/operands.h"
#include "backends/kernel.h"
#include "core/linear_weight.h"
#include "core/ops/linear.h"

namespace foretoken::gpu {

[[nodiscard]] WeightParams weight_params(const LinearWeight& w);

/// Warps that share a tile of a weight with `out_features` rows (of which a warp takes kWarpColumns, or `one_row_columns` when it
/// multiplies one row of activations) and `in_features` columns. It decides the order of sums, so it must depend on the weight
/// and on what kernels there are alone.
[[nodiscard]] uint32_t num_slices(const LinearWeight& w, int64_t out_features, uint32_t one_row_columns);

/// Of one projection, and of gate and up.
[[nodiscard]] LinearParams linear_params(const LinearWeight& w, const Tensor& x, const Tensor& out, uint32_t one_row_columns);
[[nodiscard]] LinearParams linear_params(const LinearSiluMul& op, uint32_t one_row_columns);

/// Whether whole vectors of codes and of `x` can be loaded at once.
[[nodiscard]] bool is_aligned(const LinearWeight& w, const Tensor& x);

/// No, with the reason, unless is_aligned.
[[nodiscard]] Availability has_whole_vectors(const LinearWeight& w, const Tensor& x);

/// No, with the reason, when elements of `x` cannot be counted in 32 bits.
[[nodiscard]] Availability fits_32_bits(const Tensor& x);

/// No, with the reason, unless gate and up are described by the same WeightParams but for addresses.
[[nodiscard]] Availability gate_and_up_agree(const LinearSiluMul& op);

/// "bf16", "fp8_row", ...: as kernels are called.
[[nodiscard]] std::string kernel_suffix(WeightFormat format);

/// What kernels for tensor cores read: all formats but F32, which BF16 would round.
inline constexpr std::array kTensorCoreFormats{WeightFormat::kBF16, WeightFormat::kFp8Row, WeightFormat::kFp8Block,
                                               WeightFormat::kNvfp4};

/// One kernel for each of kTensorCoreFormats.
template <class Params>
class FormatKernels {
 public:
  /// Resolves `prefix`FORMAT`suffix`. Throws Unsupported when one is absent, InternalError when the parameters differ in size.
  FormatKernels(const KernelModule& module, const std::string& prefix, const std::string& suffix = "") {
    for (const WeightFormat format : kTensorCoreFormats) {
      kernels_[static_cast<size_t>(format)] = module.resolve<Params>(prefix + kernel_suffix(format) + suffix);
    }
  }
  [[nodiscard]] const Kernel<Params>& get(WeightFormat format) const { return kernels_[static_cast<size_t>(format)]; }

 private:
  std::array<Kernel<Params>, 5> kernels_;
};

/// The variants of one kernel: a weight format, and the rows that are computed together.
template <class Params, uint32_t... kRows>
class WeightKernels {
 public:
  /// Resolves `name`_FORMAT_rROWS_narrow or, where there is none, `name`_FORMAT_rROWS, and `name`_FORMAT_any. Throws
  /// InternalError when the parameters differ in size.
  WeightKernels(const KernelModule& module, const std::string& name) {
    for (const WeightFormat format : kFormats) {
      const std::string prefix = name + "_" + kernel_suffix(format);
      Variants& variants = formats_[static_cast<size_t>(format)];
      variants.aligned = {resolve(module, prefix + "_r" + std::to_string(kRows))...};
      variants.any = resolve(module, prefix + "_any");
    }
  }

  /// Columns that a warp takes when it multiplies one row.
  [[nodiscard]] uint32_t one_row_columns(WeightFormat format) const {
    return formats_[static_cast<size_t>(format)].aligned.front().warp_columns;
  }

  struct Choice {
    const Kernel<Params>& kernel;
    uint32_t rows;
    uint32_t warp_columns;
  };

  /// The kernel for `num_rows` rows: the fewest that hold them all, or the most. Bits do not depend on the choice.
  [[nodiscard]] Choice choose(const LinearWeight& w, const Tensor& x, uint32_t num_rows) const {
    const Variants& variants = formats_[static_cast<size_t>(w.format)];
    if (!is_aligned(w, x)) return {variants.any.kernel, kAnyRows, variants.any.warp_columns};
    size_t i = 0;
    while (i + 1 < kRowCounts.size() && kRowCounts[i] < num_rows) ++i;
    return {variants.aligned[i].kernel, kRowCounts[i], variants.aligned[i].warp_columns};
  }

 private:
  static constexpr uint32_t kAnyRows = 4;
  static constexpr std::array kRowCounts{kRows...};
  static constexpr std::array kFormats{WeightFormat::kF32, WeightFormat::kBF16, WeightFormat::kFp8Row, WeightFormat::kFp8Block,
                                       WeightFormat::kNvfp4};

  struct Variant {
    Kernel<Params> kernel;
    uint32_t warp_columns = kWarpColumns;
  };
  struct Variants {
    std::array<Variant, kRowCounts.size()> aligned;
    Variant any;
  };

  static Variant resolve(const KernelModule& module, const std::string& name) {
    if (Kernel<Params> narrow = module.resolve_optional<Params>(name + "_narrow")) return {narrow, kNarrowWarpColumns};
    return {module.resolve<Params>(name), kWarpColumns};
  }

  std::array<Variants, kFormats.size()> formats_;
};

}  // namespace foretoken::gpu
