#include "backends/cuda/kernel_module.h"

#include "backends/cuda/cuda_device.h"
#include "backends/cuda/cuda_error.h"
#include "core/error.h"

namespace foretoken::cuda {

std::string CudaKernelCode::absent_reason(uint32_t architecture) const {
  const std::string needed = "sm_" + std::to_string(min_architecture_);
  if (min_architecture_ > architecture)
    return "its instructions begin with " + needed + ", this is sm_" + std::to_string(architecture);
  if (family_only_ && min_architecture_ / 10 != architecture / 10) {
    return "its instructions are those of the family of " + needed + ", this is sm_" + std::to_string(architecture);
  }
  if (loaded_architecture_ < min_architecture_) {
    return "this build has no code for " + needed + ", only what sm_" + std::to_string(loaded_architecture_) + " has";
  }
  return {};
}

CudaKernelModule::CudaKernelModule() {
  for (const gpu::KernelEntry& entry : all_kernels()) {
    if (!kernels_.try_emplace(entry.name, entry).second) {
      throw Error(ErrorCode::kInternalError, "two CUDA kernels are called " + entry.name);
    }
  }
}

CudaKernelModule::CudaKernelModule(int device) : CudaKernelModule() {
  use_device(device);
  const DeviceLimits limits = device_limits(device);
  architecture_ = limits.architecture;
  max_group_memory_ = limits.max_group_memory;
  for (auto& [name, code] : kernels_) {
    if (!code.absent_reason(architecture_).empty()) continue;
    cudaFuncAttributes attributes{};
    const cudaError_t status = cudaFuncGetAttributes(&attributes, code.function());
    if (status == cudaErrorNoKernelImageForDevice || status == cudaErrorInvalidDeviceFunction) {
      static_cast<void>(cudaGetLastError());
      throw Error(ErrorCode::kUnsupported, "this build has no kernels for CUDA device " + std::to_string(device) + " (" + name +
                                               ": " + describe(status) + ")");
    }
    check(status, "cudaFuncGetAttributes", "kernel " + name);
    code.set_loaded(static_cast<uint32_t>(attributes.ptxVersion));
    if (!code.large_group_memory()) continue;
    const auto group_memory = static_cast<int>(limits.max_group_memory - attributes.sharedSizeBytes);
    check(cudaFuncSetAttribute(code.function(), cudaFuncAttributeMaxDynamicSharedMemorySize, group_memory),
          "cudaFuncSetAttribute", "kernel " + name);
  }
}

const KernelCode* CudaKernelModule::find(std::string_view name, std::string& reason) const {
  const auto found = kernels_.find(name);
  if (found == kernels_.end()) {
    reason = "no such CUDA kernel";
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

}  // namespace foretoken::cuda
