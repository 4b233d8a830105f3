// Kernel handles: typed, checked when they are resolved (name, size of the parameters, needed features), never at launch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "backends/command_list.h"
#include "core/error.h"
#include "core/op_schema.h"

namespace foretoken {

/// One compiled kernel of a backend; each backend derives its own. Lives as long as its module.
class KernelCode {
 public:
  KernelCode(std::string name, size_t params_bytes) : name_(std::move(name)), params_bytes_(params_bytes) {}
  KernelCode(const KernelCode&) = delete;
  KernelCode& operator=(const KernelCode&) = delete;
  virtual ~KernelCode() = default;

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] size_t params_bytes() const { return params_bytes_; }

 private:
  std::string name_;
  size_t params_bytes_;
};

/// A resolved kernel, or an absent one with the reason why. Launching an absent handle is our bug and throws InternalError.
template <class Params>
class Kernel {
  static_assert(std::is_trivially_copyable_v<Params> && std::is_standard_layout_v<Params>);

 public:
  Kernel() = default;
  explicit Kernel(const KernelCode& code) : code_(&code), reason_() {}
  static Kernel absent(std::string reason) {
    Kernel kernel;
    kernel.reason_ = std::move(reason);
    return kernel;
  }

  [[nodiscard]] explicit operator bool() const { return code_ != nullptr; }
  [[nodiscard]] const std::string& absent_reason() const { return reason_; }

  /// Puts one launch on `cmd`. `accesses` lists the device memory it touches.
  void operator()(CommandList& cmd, Grid grid, const Params& params, std::span<const Access> accesses) const {
    if (code_ == nullptr) throw Error(ErrorCode::kInternalError, "launch of an absent kernel: " + reason_);
    cmd.launch(*code_, grid, std::as_bytes(std::span(&params, 1)), accesses);
  }

 private:
  const KernelCode* code_ = nullptr;
  std::string reason_ = "not resolved";
};

/// The kernels of one device, by name.
class KernelModule {
 public:
  virtual ~KernelModule() = default;

  /// The kernel, or null with `reason` set when this device lacks what the kernel needs or no such name exists.
  [[nodiscard]] virtual const KernelCode* find(std::string_view name, std::string& reason) const = 0;

  /// A required kernel. Throws Unsupported with the reason when it is absent, InternalError when the parameters differ in size.
  template <class Params>
  [[nodiscard]] Kernel<Params> resolve(std::string_view name) const {
    Kernel<Params> kernel = resolve_optional<Params>(name);
    if (!kernel) throw Error(ErrorCode::kUnsupported, "kernel " + std::string(name) + ": " + kernel.absent_reason());
    return kernel;
  }

  /// An optional kernel: an absent handle with its reason where this device lacks it.
  template <class Params>
  [[nodiscard]] Kernel<Params> resolve_optional(std::string_view name) const {
    std::string reason;
    const KernelCode* code = find(name, reason);
    if (code == nullptr) return Kernel<Params>::absent(reason);
    if (code->params_bytes() != sizeof(Params)) {
      throw Error(ErrorCode::kInternalError, {.what = "parameters of kernel " + std::string(name) + " differ in size",
                                              .expected = std::to_string(code->params_bytes()) + " bytes",
                                              .got = std::to_string(sizeof(Params))});
    }
    return Kernel<Params>(*code);
  }
};

}  // namespace foretoken
