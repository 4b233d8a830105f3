#include "backends/gpu/host/provider.h"

#include <cstdlib>
#include <string_view>

#include "backends/gpu/host/backend.h"
#include "backends/gpu/host/devices.h"
#include "core/error.h"

namespace foretoken::FORETOKEN_GPU_NAMESPACE {
namespace {

bool is_set(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && std::string_view(value) == "1";
}

}  // namespace

Availability RuntimeProvider::availability() const { return driver_availability(); }

std::vector<Capabilities> RuntimeProvider::devices() const {
  std::vector<Capabilities> list;
  for (int device = 0; device < num_devices(); ++device) list.push_back(device_capabilities(device));
  return list;
}

std::unique_ptr<GpuBackend> RuntimeProvider::open(int device_index, const BackendOptions& /*options*/) const {
  if (const Availability available = driver_availability(); !available) {
    throw Error(ErrorCode::kUnsupported, std::string(runtime::kName) + ": " + available.reason());
  }
  if (device_index < 0 || device_index >= num_devices()) {
    const std::string prefix = std::string(runtime::kName) + ":";
    throw Error(ErrorCode::kInvalidArgument, {.what = "no such " + std::string(runtime::kTitle) + " device",
                                              .expected = prefix + "0 .. " + prefix + std::to_string(num_devices() - 1),
                                              .got = prefix + std::to_string(device_index)});
  }
  return std::make_unique<RuntimeBackend>(device_index, is_set("FORETOKEN_SYNC_KERNELS") || is_set("FORETOKEN_EAGER"));
}

}  // namespace foretoken::FORETOKEN_GPU_NAMESPACE
