#include "backends/gpu/host/error.h"

#include "backends/gpu/host/log_warning.h"
#include "core/error.h"

namespace foretoken::FORETOKEN_GPU_NAMESPACE {

std::string describe(runtime::Status status) {
  return std::string(runtime::error_name(status)) + " (" + std::to_string(static_cast<int>(status)) +
         "): " + runtime::error_text(status);
}

void check(const runtime::Result& result, std::string_view detail) {
  if (!result.failed()) return;
  runtime::clear_error();  // what is reported here must not be met again by the next call
  std::string message = std::string(result.call) + " failed: " + describe(result.status);
  if (!detail.empty()) message += "; " + std::string(detail);
  throw Error(ErrorCode::kDeviceError, message);
}

void check_in_destructor(const runtime::Result& result) noexcept {
  if (!result.failed() || result.status == runtime::kUnloading) return;
  try {
    gpu::log_warning(std::string(result.call) + " failed: " + describe(result.status));
  } catch (...) {  // NOLINT(bugprone-empty-catch): no memory for the text
  }
}

void use_device(int device) { check(runtime::set_device(device)); }

}  // namespace foretoken::FORETOKEN_GPU_NAMESPACE
