// What memory an address of a caller lies in.
#include <cuda.h>
#include <cudaTypedefs.h>

#include "gpu_runtime.h"

namespace foretoken::cuda::runtime {

Result memory_range(uint64_t address, int device, MemoryRange& range) {
  range = {};
  cudaPointerAttributes attributes{};
  const Status asked = cudaPointerGetAttributes(&attributes, reinterpret_cast<const void*>(address));
  if (asked != kSuccess) return {asked, "cudaPointerGetAttributes"};
  if (attributes.type == cudaMemoryTypeManaged) {
    range.device = device;
  } else if (attributes.type == cudaMemoryTypeDevice) {
    range.device = attributes.device;
  }
  if (range.device != device) return {kSuccess, "cudaPointerGetAttributes"};

  // The runtime has no such call, and the driver's library is not linked: it need not be there.
  constexpr unsigned kVersion = 3020;
  void* call = nullptr;
  cudaDriverEntryPointQueryResult found{};
  const Status resolved = cudaGetDriverEntryPointByVersion("cuMemGetAddressRange", &call, kVersion, cudaEnableDefault, &found);
  if (resolved != kSuccess) return {resolved, "cudaGetDriverEntryPointByVersion"};
  if (found != cudaDriverEntryPointSuccess) return {cudaErrorNotSupported, "cudaGetDriverEntryPointByVersion"};
  CUdeviceptr begin = 0;
  size_t bytes = 0;
  if (reinterpret_cast<PFN_cuMemGetAddressRange_v3020>(call)(&begin, &bytes, address) != CUDA_SUCCESS) {
    return {cudaErrorInvalidValue, "cuMemGetAddressRange"};
  }
  range.bytes = begin + bytes - address;
  return {kSuccess, "cuMemGetAddressRange"};
}

}  // namespace foretoken::cuda::runtime
