#include "backends/cuda/cuda_error.h"

#include "core/error.h"
#include "core/log.h"

namespace foretoken::cuda {

std::string describe(cudaError_t status) {
  return std::string(cudaGetErrorName(status)) + " (" + std::to_string(static_cast<int>(status)) +
         "): " + cudaGetErrorString(status);
}

void check(cudaError_t status, std::string_view call, std::string_view detail) {
  if (status == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());  // what is reported here must not be met again by the next call
  std::string message = std::string(call) + " failed: " + describe(status);
  if (!detail.empty()) message += "; " + std::string(detail);
  throw Error(ErrorCode::kDeviceError, message);
}

void check_in_destructor(cudaError_t status, std::string_view call) noexcept {
  if (status == cudaSuccess || status == cudaErrorCudartUnloading) return;
  try {
    log().warn("{} failed: {}", call, describe(status));
  } catch (...) {  // NOLINT(bugprone-empty-catch): a log that cannot be written must not end the process
  }
}

void use_device(int device) { check(cudaSetDevice(device), "cudaSetDevice"); }

}  // namespace foretoken::cuda
