// The CPU kernels of one instruction set, by name.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "backends/cpu/kernel_entry.h"
#include "backends/kernel.h"

namespace foretoken::cpu {

class CpuKernelCode final : public KernelCode {
 public:
  explicit CpuKernelCode(const KernelEntry& entry)
      : KernelCode(std::string(entry.name), entry.params_bytes), function_(entry.function) {}

  [[nodiscard]] KernelFn function() const { return function_; }

 private:
  KernelFn function_;
};

class CpuKernelModule final : public KernelModule {
 public:
  /// Throws InternalError when two kernels have one name.
  explicit CpuKernelModule(Isa isa);

  [[nodiscard]] Isa isa() const { return isa_; }
  [[nodiscard]] const KernelCode* find(std::string_view name, std::string& reason) const override;

 private:
  Isa isa_;
  std::map<std::string, CpuKernelCode, std::less<>> kernels_;
};

}  // namespace foretoken::cpu
