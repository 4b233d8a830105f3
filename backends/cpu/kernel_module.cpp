#include "backends/cpu/kernel_module.h"

#include "backends/cpu/cpu_info.h"
#include "backends/cpu/kernels/kernels.h"

namespace foretoken::cpu {

CpuKernelModule::CpuKernelModule(Isa isa) : isa_(isa) {
  for (const KernelEntry& entry : kernels_for(isa)) {
    if (!kernels_.try_emplace(std::string(entry.name), entry).second) {
      throw Error(ErrorCode::kInternalError, "two CPU kernels are called " + std::string(entry.name));
    }
  }
}

const KernelCode* CpuKernelModule::find(std::string_view name, std::string& reason) const {
  const auto found = kernels_.find(name);
  if (found != kernels_.end()) return &found->second;
  reason = "no such kernel for instruction set " + std::string(to_string(isa_));
  return nullptr;
}

}  // namespace foretoken::cpu
