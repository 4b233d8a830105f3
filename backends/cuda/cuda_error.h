// Every CUDA call goes through here: a failure becomes an Error that names the call, the code and what CUDA says about it.
#pragma once

#include <cuda_runtime_api.h>

#include <string>
#include <string_view>

namespace foretoken::cuda {

/// "cudaErrorIllegalAddress (700): an illegal memory access was encountered".
[[nodiscard]] std::string describe(cudaError_t status);

/// Throws DeviceError "CALL failed: NAME (CODE): TEXT" unless `status` is success. `detail`, where given, ends the message.
void check(cudaError_t status, std::string_view call, std::string_view detail = {});

/// For destructors: logs a failure instead of throwing it. A process that is going down is no failure.
void check_in_destructor(cudaError_t status, std::string_view call) noexcept;

/// Makes `device` the current one of the calling thread, as every other call of the runtime takes for granted.
void use_device(int device);

}  // namespace foretoken::cuda
