#include "backends/cuda/kernel_module.h"

#include "backends/cuda/cuda_device.h"
#include "backends/cuda/cuda_error.h"
#include "core/error.h"

namespace foretoken::cuda {

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
  for (const auto& [name, code] : kernels_) {
    if (code.min_architecture() > architecture_) continue;
    cudaFuncAttributes attributes{};
    const cudaError_t status = cudaFuncGetAttributes(&attributes, code.function());
    if (status == cudaErrorNoKernelImageForDevice || status == cudaErrorInvalidDeviceFunction) {
      static_cast<void>(cudaGetLastError());
      throw Error(ErrorCode::kUnsupported, "this build has no kernels for CUDA device " + std::to_string(device) + " (" + name +
                                               ": " + describe(status) + ")");
    }
    check(status, "cudaFuncGetAttributes", "kernel " + name);
    if (!code.large_group_memory()) continue;
    const auto group_memory = static_cast<int>(limits.max_group_memory - attributes.sharedSizeBytes);
    check(cudaFuncSetAttribute(code.function(), cudaFuncAttributeMaxDynamicSharedMemorySize, group_memory), "cudaFuncSetAttribute",
          "kernel " + name);
  }
}

const KernelCode* CudaKernelModule::find(std::string_view name, std::string& reason) const {
  const auto found = kernels_.find(name);
  if (found == kernels_.end()) {
    reason = "no such CUDA kernel";
    return nullptr;
  }
  if (architecture_ != 0 && found->second.min_architecture() > architecture_) {
    reason = "its instructions begin with sm_" + std::to_string(found->second.min_architecture()) + ", this is sm_" +
             std::to_string(architecture_);
    return nullptr;
  }
  return &found->second;
}

}  // namespace foretoken::cuda
