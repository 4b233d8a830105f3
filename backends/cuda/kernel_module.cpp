#include "backends/cuda/kernel_module.h"

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
  for (const auto& [name, code] : kernels_) {
    cudaFuncAttributes attributes{};
    const cudaError_t status = cudaFuncGetAttributes(&attributes, code.function());
    if (status == cudaErrorNoKernelImageForDevice || status == cudaErrorInvalidDeviceFunction) {
      static_cast<void>(cudaGetLastError());
      throw Error(ErrorCode::kUnsupported, "this build has no kernels for CUDA device " + std::to_string(device) + " (" + name +
                                               ": " + describe(status) + ")");
    }
    check(status, "cudaFuncGetAttributes", "kernel " + name);
  }
}

const KernelCode* CudaKernelModule::find(std::string_view name, std::string& reason) const {
  const auto found = kernels_.find(name);
  if (found != kernels_.end()) return &found->second;
  reason = "no such CUDA kernel";
  return nullptr;
}

}  // namespace foretoken::cuda
