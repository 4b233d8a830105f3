// The devices of this machine and what each can do.
#pragma once

#include "backends/capabilities.h"
#include "gpu_runtime.h"

namespace foretoken::FORETOKEN_GPU_NAMESPACE {

/// Whether the driver is there and has a device; otherwise what the runtime says about it.
[[nodiscard]] Availability driver_availability();

/// 0 without a driver.
[[nodiscard]] int num_devices();

/// What kernels are chosen and launched by.
struct DeviceLimits {
  uint32_t architecture = 0;      // as kernel_entry.h counts them
  uint32_t max_group_memory = 0;  // bytes of one work group
};

/// Of each backend. Throws DeviceError when the device cannot be asked.
[[nodiscard]] DeviceLimits device_limits(int device);

/// Of each backend. Throws DeviceError when the device cannot be asked.
[[nodiscard]] Capabilities device_capabilities(int device);

}  // namespace foretoken::FORETOKEN_GPU_NAMESPACE
