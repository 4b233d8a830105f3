#include "backends/gpu/host/kernel_module.h"

#include "backends/gpu/host/devices.h"
#include "backends/gpu/host/error.h"
#include "core/error.h"

namespace foretoken::FORETOKEN_GPU_NAMESPACE {

std::string RuntimeKernelCode::absent_reason(uint32_t architecture) const {
  const std::string needed = runtime::architecture_name(min_architecture_);
  if (min_architecture_ > architecture)
    return "its instructions begin with " + needed + ", this is " + runtime::architecture_name(architecture);
  if (family_only_ && runtime::family_of(min_architecture_) != runtime::family_of(architecture)) {
    return "its instructions are those of the family of " + needed + ", this is " + runtime::architecture_name(architecture);
  }
  if (missing_instructions_ != nullptr) {
    if (std::string missing = missing_instructions_(architecture); !missing.empty()) return missing;
  }
  if (loaded_architecture_ < min_architecture_) {
    return "this build has no code for " + needed + ", only what " + runtime::architecture_name(loaded_architecture_) + " has";
  }
  return {};
}

RuntimeKernelModule::RuntimeKernelModule() {
  for (const gpu::KernelEntry& entry : all_kernels()) {
    if (!kernels_.try_emplace(entry.name, entry).second) {
      throw Error(ErrorCode::kInternalError, "two " + std::string(runtime::kTitle) + " kernels are called " + entry.name);
    }
  }
}

RuntimeKernelModule::RuntimeKernelModule(int device) : RuntimeKernelModule() {
  use_device(device);
  const DeviceLimits limits = device_limits(device);
  architecture_ = limits.architecture;
  max_group_memory_ = limits.max_group_memory;
  for (auto& [name, code] : kernels_) {
    if (!code.absent_reason(architecture_).empty()) continue;
    runtime::KernelFacts facts;
    const runtime::Result result = runtime::kernel_facts(code.function(), facts);
    if (runtime::is_no_code(result.status)) {
      runtime::clear_error();
      throw Error(ErrorCode::kUnsupported, "this build has no kernels for " + std::string(runtime::kTitle) + " device " +
                                               std::to_string(device) + " (" + name + ": " + describe(result.status) + ")");
    }
    check(result, "kernel " + name);
    code.set_loaded(facts.architecture);
    if (!code.large_group_memory()) continue;
    check(runtime::allow_group_memory(code.function(), limits.max_group_memory - facts.group_memory), "kernel " + name);
  }
}

const KernelCode* RuntimeKernelModule::find(std::string_view name, std::string& reason) const {
  const auto found = kernels_.find(name);
  if (found == kernels_.end()) {
    reason = "no such " + std::string(runtime::kTitle) + " kernel";
    return nullptr;
  }
  if (architecture_ != 0) reason = found->second.absent_reason(architecture_);
  if (!reason.empty()) return nullptr;
  if (architecture_ != 0 && found->second.min_group_memory() > max_group_memory_) {
    reason = "a work group needs " + std::to_string(found->second.min_group_memory()) + " bytes of memory, this device gives " +
             std::to_string(max_group_memory_);
    return nullptr;
  }
  return &found->second;
}

}  // namespace foretoken::FORETOKEN_GPU_NAMESPACE
