#include "backends/cuda/cuda_provider.h"

#include <cstdlib>
#include <string_view>

#include "backends/cuda/cuda_backend.h"
#include "backends/cuda/cuda_device.h"
#include "core/error.h"

namespace foretoken::cuda {
namespace {

bool is_set(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && std::string_view(value) == "1";
}

}  // namespace

Availability CudaProvider::availability() const { return driver_availability(); }

std::vector<Capabilities> CudaProvider::devices() const {
  std::vector<Capabilities> list;
  for (int device = 0; device < num_devices(); ++device) list.push_back(device_capabilities(device));
  return list;
}

std::unique_ptr<GpuBackend> CudaProvider::open(int device_index, const BackendOptions& /*options*/) const {
  if (const Availability available = driver_availability(); !available) {
    throw Error(ErrorCode::kUnsupported, "cuda: " + available.reason());
  }
  if (device_index < 0 || device_index >= num_devices()) {
    throw Error(ErrorCode::kInvalidArgument, {.what = "no such CUDA device",
                                              .expected = "cuda:0 .. cuda:" + std::to_string(num_devices() - 1),
                                              .got = "cuda:" + std::to_string(device_index)});
  }
  return std::make_unique<CudaBackend>(device_index, is_set("FORETOKEN_SYNC_KERNELS") || is_set("FORETOKEN_EAGER"));
}

}  // namespace foretoken::cuda
