// What the implementations that read weights have in common.
#pragma once

#include <string>

#include "backends/cpu/ops/operands.h"
#include "backends/kernel.h"
#include "backends/op_table.h"
#include "core/error.h"
#include "core/linear_weight.h"

namespace foretoken::cpu {

/// The variants of one kernel for each weight format; those that this build or device lacks are absent.
template <class Params>
class WeightKernels {
 public:
  /// Resolves `name`_f32 and `name`_bf16. Throws InternalError when the parameters differ in size.
  WeightKernels(const KernelModule& module, const std::string& name)
      : f32_(module.resolve_optional<Params>(name + "_f32")), bf16_(module.resolve_optional<Params>(name + "_bf16")) {}

  [[nodiscard]] const Kernel<Params>& get(WeightFormat format) const {
    static const Kernel<Params> none = Kernel<Params>::absent("the CPU has no kernel for this weight format");
    switch (format) {
      case WeightFormat::kF32: return f32_;
      case WeightFormat::kBF16: return bf16_;
      case WeightFormat::kFp8Row:
      case WeightFormat::kFp8Block:
      case WeightFormat::kNvfp4: break;
    }
    return none;
  }

  [[nodiscard]] Availability available(WeightFormat format) const {
    const Kernel<Params>& kernel = get(format);
    if (kernel) return Availability::yes();
    return Availability::no(std::string(to_string(format)) + " weights: " + kernel.absent_reason());
  }

 private:
  Kernel<Params> f32_;
  Kernel<Params> bf16_;
};

/// The address of `workspace`. Throws InvalidArgument when it is smaller than `bytes`.
[[nodiscard]] inline uint64_t checked_workspace(const char* op, const Tensor& workspace, size_t bytes) {
  const size_t got = workspace ? workspace.view().bytes : 0;
  if (got < bytes) {
    throw Error(ErrorCode::kInvalidArgument, {.what = "the workspace is too small",
                                              .where = op,
                                              .expected = std::to_string(bytes) + " bytes",
                                              .got = std::to_string(got) + " bytes"});
  }
  return workspace.address();
}

}  // namespace foretoken::cpu
