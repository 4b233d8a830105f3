// What memory an address of a caller lies in.
#include "gpu_runtime.h"

namespace foretoken::hip::runtime {
namespace {

/// What HIP 6 calls `type` and HIP 5 `memoryType`.
template <class Attributes>
hipMemoryType type_of(const Attributes& attributes) {
  if constexpr (requires { attributes.type; }) {
    return attributes.type;
  } else {
    return attributes.memoryType;
  }
}

#if defined(__HIP_PLATFORM_NVIDIA__)
/// Through the runtime: HIP's own call is one of the driver's library, which is not linked and need not be there.
Result address_range(hipDeviceptr_t* begin, size_t* bytes, uint64_t address) {
  using GetAddressRange = CUresult (*)(CUdeviceptr*, size_t*, CUdeviceptr);  // since version 3.2
  constexpr unsigned kVersion = 3020;
  void* call = nullptr;
  cudaDriverEntryPointQueryResult found{};
  if (cudaGetDriverEntryPointByVersion("cuMemGetAddressRange", &call, kVersion, cudaEnableDefault, &found) != cudaSuccess ||
      found != cudaDriverEntryPointSuccess) {
    return {hipErrorNotSupported, "cudaGetDriverEntryPointByVersion"};
  }
  const CUresult result = reinterpret_cast<GetAddressRange>(call)(begin, bytes, address);
  return {result == CUDA_SUCCESS ? kSuccess : hipErrorInvalidValue, "cuMemGetAddressRange"};
}
#else
Result address_range(hipDeviceptr_t* begin, size_t* bytes, uint64_t address) {
  return {hipMemGetAddressRange(begin, bytes, reinterpret_cast<hipDeviceptr_t>(address)), "hipMemGetAddressRange"};
}
#endif

}  // namespace

Result memory_range(uint64_t address, int device, MemoryRange& range) {
  range = {};
  hipPointerAttribute_t attributes{};
  const Status asked = hipPointerGetAttributes(&attributes, reinterpret_cast<const void*>(address));
  if (asked == hipErrorInvalidValue) {  // what HIP says of memory that it does not know
    clear_error();
    return {kSuccess, "hipPointerGetAttributes"};
  }
  if (asked != kSuccess) return {asked, "hipPointerGetAttributes"};
  if (attributes.isManaged != 0) {
    range.device = device;
  } else if (type_of(attributes) == hipMemoryTypeDevice) {
    range.device = attributes.device;
  }
  if (range.device != device) return {kSuccess, "hipPointerGetAttributes"};

  hipDeviceptr_t begin{};
  size_t bytes = 0;
  const Result result = address_range(&begin, &bytes, address);
  if (!result.failed()) range.bytes = (uint64_t)begin + bytes - address;  // an integer or a pointer, as the platform has it
  return result;
}

}  // namespace foretoken::hip::runtime
