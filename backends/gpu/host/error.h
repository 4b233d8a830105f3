// Every call of the runtime goes through here: a failure becomes an Error that names the call, the code and what the runtime says
// about it.
#pragma once

#include "gpu_runtime.h"

#include <string>
#include <string_view>

namespace foretoken::FORETOKEN_GPU_NAMESPACE {

/// "cudaErrorIllegalAddress (700): an illegal memory access was encountered".
[[nodiscard]] std::string describe(runtime::Status status);

/// Throws DeviceError "CALL failed: NAME (CODE): TEXT" unless the call succeeded. `detail`, where given, ends the message.
void check(const runtime::Result& result, std::string_view detail = {});

/// For destructors: logs a failure instead of throwing it. A process that is going down is no failure.
void check_in_destructor(const runtime::Result& result) noexcept;

/// Makes `device` the current one of the calling thread, as every other call of the runtime takes for granted.
void use_device(int device);

}  // namespace foretoken::FORETOKEN_GPU_NAMESPACE
