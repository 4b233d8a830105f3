// Finds the devices of the runtime and opens them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backends/backend.h"
#include "gpu_runtime.h"

namespace foretoken::FORETOKEN_GPU_NAMESPACE {

/// Says why there is no device where the driver is missing; nothing here needs one. `open` reads FORETOKEN_SYNC_KERNELS and
/// FORETOKEN_EAGER: with either at 1 every launch is waited for, and an error names the kernel that caused it.
class RuntimeProvider final : public BackendProvider {
 public:
  [[nodiscard]] std::string name() const override { return std::string(runtime::kName); }
  [[nodiscard]] Availability availability() const override;
  [[nodiscard]] std::vector<Capabilities> devices() const override;
  [[nodiscard]] std::unique_ptr<GpuBackend> open(int device_index, const BackendOptions& options) const override;
};

}  // namespace foretoken::FORETOKEN_GPU_NAMESPACE
